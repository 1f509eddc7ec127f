"""The copy of the working tree in which faults are planted."""

import pathlib
import subprocess
import sys

import schemata
from faults import FAULTS
from programs import BuildFailed, build

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target" / "faults"
COPY = FOLDER / "tree"


class Tree:
    """The copy, with all faults but those that are planted alone."""

    def __init__(self):
        self.sites, self.misplaced, self.lines = {}, {}, {}
        for fault in FAULTS:
            try:
                self.sites[fault.number] = schemata.find(ROOT, fault)
            except schemata.Misplaced as reason:
                self.misplaced[fault.number] = str(reason)
        self.alone = {number for number, site in self.sites.items() if not site.fits_schema()}
        self.libraries = {fault.part.folder.split("/src")[0] + "/src/lib.rs" for fault in FAULTS}
        planted = self.libraries | {site.path for site in self.sites.values()}
        # Somebody may edit the working tree meanwhile.
        self.planted = {path: (ROOT / path).read_text() for path in planted}

    def copy(self):
        """Copies files without faults, and deletes files that the working tree no longer has."""
        command = ["git", "ls-files", "-co", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        names = set(listed.stdout.splitlines())
        for old in [path for path in COPY.rglob("*") if path.is_file()]:
            if str(old.relative_to(COPY)) not in names:
                old.unlink()
        for name in names - self.planted.keys():
            if (ROOT / name).is_file():
                put(COPY / name, (ROOT / name).read_bytes())

    def build_together(self, wanted):
        """The programs with all faults that compile beside each other. The rest is planted alone."""
        while True:
            self.plant()
            try:
                return build(COPY, FOLDER / "build", wanted)
            except BuildFailed as failed:
                blamed = self.blamed(failed.spans) - self.alone
                if not blamed:
                    sys.exit(f"the tree does not compile:\n{failed}")
                self.alone |= blamed
                names = ", ".join(fault.name for fault in FAULTS if fault.number in blamed)
                print(f"these do not compile beside the others, and are planted alone: {names}", flush=True)

    def build_alone(self, fault):
        """The programs that go by this fault without a number."""
        self.plant(self.sites[fault.number])
        return build(COPY, FOLDER / "build", fault.part.tests)

    def plant(self, alone=None):
        for path, whole in self.planted.items():
            numbers = [number for number in self.sites.keys() - self.alone if self.sites[number].path == path]
            arms = {number: self.sites[number] for number in sorted(numbers)}
            own = alone if alone and alone.path == path else None
            text, self.lines[path] = schemata.write(whole, arms, own)
            put(COPY / path, (text + schemata.PLANTED_FAULT * (path in self.libraries)).encode())

    def blamed(self, spans):
        """The faults in whose lines the compiler finds errors."""
        return {
            number
            for path, line in spans
            for first, last, numbers in self.lines.get(path, [])
            if first <= line <= last
            for number in numbers
        }


def put(path, content):
    """Writes a file if its content is new: Cargo builds what is newer than its last build."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
