#!/usr/bin/env python3
"""Prints a bill of materials (CycloneDX 1.6, JSON): the packages that `rampmeter` is built from.

    deploy/sbom.py > rampmeter.cdx.json

The versions and hashes are those of Cargo.lock, for all platforms. Packages that only tests need
are left out. The same Cargo.lock gives the same text.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = "rampmeter-scheduler"
# A package of a test is a dependency of this kind.
OF_TESTS = "dev"


def metadata():
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def hashes():
    """The hash of each package of a registry, by name and version."""
    text = (ROOT / "Cargo.lock").read_text()
    entry = re.compile(r'name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"')
    return {(name, version): checksum for name, version, checksum in entry.findall(text)}


def needed(nodes, start):
    """The packages that `start` needs, itself included, each with its own dependencies."""
    found, open_ = {}, [start]
    while open_:
        package = open_.pop()
        if package not in found:
            used = [dep for dep in nodes[package]["deps"] if any(kind["kind"] != OF_TESTS for kind in dep["dep_kinds"])]
            found[package] = sorted(dep["pkg"] for dep in used)
            open_ += found[package]
    return found


def component(package, checksums):
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    described = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if (name, version) in checksums:
        described["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    if package["repository"]:
        described["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return described


def bill(read, checksums):
    packages = {package["id"]: package for package in read["packages"]}
    nodes = {node["id"]: node for node in read["resolve"]["nodes"]}
    program = next(id_ for id_, package in packages.items() if package["name"] == PROGRAM)
    uses = needed(nodes, program)
    parts = {id_: component(packages[id_], checksums) for id_ in uses}
    reference = {id_: part["bom-ref"] for id_, part in parts.items()}
    dependencies = [{"ref": reference[id_], "dependsOn": sorted(reference[on] for on in uses[id_])} for id_ in uses]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**parts.pop(program), "type": "application"}},
        "components": sorted(parts.values(), key=lambda part: part["bom-ref"]),
        "dependencies": sorted(dependencies, key=lambda dependency: dependency["ref"]),
    }


json.dump(bill(metadata(), hashes()), sys.stdout, indent=1)
print()
