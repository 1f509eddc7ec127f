"""The wheels: with nothing but them, an empty environment gets its first permit."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path

import rampmeter
from limits import PLENTY
from servers import LONGEST, ROOT, Server, binary

ASK = """
import rampmeter, sys
with rampmeter.connect(sys.argv[1]).resource("api").permit(max_wait=20) as permit:
    permit.settle(200)
print("granted", permit.is_local)
"""
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input"]


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)), env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_parts_have_one_version() -> None:
    version = rampmeter.__version__
    assert f'\nversion = "{version}"\n' in (ROOT / "Cargo.toml").read_text()
    assert f'"rampmeter-server=={version}"' in (ROOT / "python" / "pyproject.toml").read_text()


def test_a_wheel_says_what_it_is_and_on_which_terms(tmp_path: Path) -> None:
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT / "python"]
    run(sys.executable, *build)
    (wheel,) = tmp_path.glob("rampmeter-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = {name.partition(".dist-info/")[2]: archive.read(name) for name in archive.namelist()}
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert (
            files[f"licenses/{licence}"]
            == (ROOT / licence).read_bytes()
            == (ROOT / "typescript" / licence).read_bytes()
        )
    told = message_from_bytes(files["METADATA"])
    assert told["Keywords"] and told["Author"] and len(told.get_all("Classifier", [])) > 10
    assert told["License-Expression"] == "MIT OR Apache-2.0" and "rampmeter.connect(" in str(told.get_payload())
    # The packages of OpenAI and Anthropic bring the client of HTTP that they use.
    needed = [line for line in told.get_all("Requires-Dist", []) if "openai" in line or "anthropic" in line]
    assert len(needed) == 2, needed


def test_an_empty_environment_has_a_permit(tmp_path: Path, started: Callable[[Server], Server]) -> None:
    """Neither cargo nor a compiler nor a nats-server is on the PATH."""
    wheels, fresh = tmp_path / "wheels", tmp_path / "fresh"
    print(run(sys.executable, ROOT / "python" / "build", wheels, RAMPMETER_BINARY=binary()))
    built = sorted(wheels.iterdir())
    assert len(built) == 3, "two wheels, and the source of the client"
    run(sys.executable, "-m", "twine", "check", "--strict", *built)
    (server,) = wheels.glob("rampmeter_server-*.whl")
    with zipfile.ZipFile(server) as archive:
        text = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA")))
    told = message_from_bytes(text)
    assert told["Keywords"] and told["Author"] and "rampmeter init plain" in str(told.get_payload())
    pin = str(told["Requires-Dist"])
    assert pin in (ROOT / "python" / "requirements.txt").read_text().splitlines()
    run(sys.executable, *PIP, "download", "--no-deps", "--dest", wheels, pin)

    began = time.monotonic()
    # A pip in the environment would take most of the time.
    run(sys.executable, "-m", "venv", "--without-pip", fresh)
    into = ["--python", fresh / "bin" / "python"]
    run(sys.executable, *PIP, *into, "install", "--no-index", "--find-links", wheels, "rampmeter[server]")
    installed = time.monotonic() - began
    with socket.create_server(("127.0.0.1", 0)) as free:
        nats = free.getsockname()[1]
    configuration = tmp_path / "rampmeter.toml"
    configuration.write_text(
        f'[nats]\nurl = "nats://127.0.0.1:{nats}"\n[http]\nlisten = "127.0.0.1:0"\n{PLENTY}', "utf-8"
    )
    serve = ["serve", "--embedded-nats", "--data", str(tmp_path / "data"), "--config", str(configuration)]
    alone = ["env", "-i", f"PATH={fresh}/bin:/usr/bin:/bin", f"HOME={tmp_path}", str(fresh / "bin" / "rampmeter")]
    scheduler = Server(tmp_path, "scheduler", [*alone, *serve])
    started(scheduler)
    scheduler.until_said("ready")
    url = scheduler.until_said("health and metrics at").split("health and metrics at ")[1].split("/metrics")[0]
    assert run(fresh / "bin" / "python", "-c", ASK, url) == "granted False\n"
    took = time.monotonic() - began
    print(f"from no environment to the first permit: {took:.1f} s, {installed:.1f} s of it to install")
    assert took < 2 * LONGEST
