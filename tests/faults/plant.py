#!/usr/bin/env python3
"""Plants faults in the core, in sessions, in jobs, in HTTP, in evalscripts and in the proxy, and sees
whether a test fails for each.

    tests/faults/plant.py              all of them, which takes half an hour
    tests/faults/plant.py 'head|lost'  those whose name or folder this regular expression finds
    tests/faults/plant.py --list       their folders and names
    tests/faults/plant.py --check      whether each can be planted, without a test

A fault in faults.py names a function and a regular expression. The expression has to match at one
place of all functions with this name in the package, in whatever files they are. A function may
therefore move, and the rest of its text may change. The formatting of rustfmt shows where a
function ends.

Faults are planted in a copy of the working tree under target/faults; the tree itself does not
change. All are compiled into the same programs, which go by one of them at a time. A fault that
does not compile beside the others is planted alone, and has a build of its own.

The exit code is 1 if a fault survives the tests or has no place in the code any more.
"""

import json
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from faults import FAULTS, PARTS
from programs import BuildFailed, Runner
from tree import COPY, FOLDER, Tree

# Which test caught a fault last, and is therefore run first.
CAUGHT = FOLDER / "caught.json"


class Trial:
    """Runs tests by the numbers of faults, the likeliest to fail first, and says at once what it sees."""

    def __init__(self, runner, count):
        self.runner, self.count, self.done = runner, count, 0
        self.last, self.caught = caught_last(), {}
        self.lock = threading.Lock()

    def rounds(self, part):
        """What each fault of a part is tried with: the test that caught it last, then all tests."""
        yield lambda fault: [
            (tests, self.last[fault.name][1]) for tests in part.tests if self.was_caught_by(tests, fault)
        ]
        for tests in part.tests:
            yield lambda _, tests=tests: [(tests, None)]

    def was_caught_by(self, tests, fault):
        return fault.name in self.last and self.last[fault.name][0] == [tests.package, tests.target]

    def run(self, part, faults):
        """A round has the faults that all rounds before it have left."""
        with ThreadPoolExecutor(1 if part.waits else os.cpu_count()) as pool:
            for choice in self.rounds(part):
                tries = {fault: choice(fault) for fault in faults}
                self.measure(pool, {each for chosen in tries.values() for each in chosen})
                caught = set(pool.map(lambda each: self.attempt(each[0], each[0].number, each[1]), tries.items()))
                faults = [fault for fault in faults if fault not in caught]
        for fault in faults:
            self.tell(fault, "SURVIVES")

    def run_alone(self, fault):
        if not any(self.attempt(fault, 0, choice(fault)) for choice in self.rounds(fault.part)):
            self.tell(fault, "SURVIVES")

    def measure(self, pool, tests):
        """Ends all if tests fail without any fault."""
        for failed in filter(None, pool.map(lambda each: self.runner.measure(*each), tests)):
            sys.exit(f"the tests fail without any fault: {failed}")

    def attempt(self, fault, number, chosen):
        """The fault, if one of the chosen tests fails by it."""
        for tests, only in chosen:
            begin = time.monotonic()
            failed = self.runner.run(tests, number, only)
            if failed:
                self.caught[fault.name] = [tests.package, tests.target], failed
                self.tell(fault, f"caught by {failed} ({time.monotonic() - begin:.1f} s)")
                return fault
        return None

    def tell(self, fault, what):
        with self.lock:
            self.done += 1
            print(f"[{self.done}/{self.count}] {fault.name}: {what}", flush=True)

    def keep(self):
        CAUGHT.write_text(json.dumps({**caught_last(), **self.caught}, indent=1))


def caught_last():
    return json.loads(CAUGHT.read_text()) if CAUGHT.exists() else {}


def try_all(chosen):
    tree = Tree()
    tree.copy()
    runner = Runner(COPY, tree.build_together({tests for fault in chosen for tests in fault.part.tests}))
    trial = Trial(runner, len(chosen))
    for fault in chosen:
        if fault.number in tree.misplaced:
            trial.tell(fault, tree.misplaced[fault.number])
    planted = [fault for fault in chosen if fault.number in tree.sites]
    try:
        for part in PARTS:
            here = [fault for fault in planted if fault.part is part and fault.number not in tree.alone]
            trial.run(part, here)
        for fault in planted:
            if fault.number in tree.alone:
                try_alone(trial, tree, fault)
    finally:
        trial.keep()
    return len(trial.caught)


def try_alone(trial, tree, fault):
    try:
        trial.runner.programs |= tree.build_alone(fault)
    except BuildFailed as failed:
        trial.tell(fault, f"does not compile:\n{failed}")
    else:
        trial.run_alone(fault)


def title(fault):
    return f"{fault.part.folder}: {fault.name}"


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if wanted == "--list":
        return print("\n".join(map(title, FAULTS)))
    if wanted in ("-h", "--help"):
        return print(__doc__.strip())
    if wanted == "--check":
        return sys.exit("\n".join(Tree().misplaced.values()) or None)
    chosen = [fault for fault in FAULTS if re.search(wanted, title(fault))]
    if not chosen:
        sys.exit(f"`{wanted}` finds no fault; see --list")
    caught = try_all(chosen)
    print(f"{caught} of {len(chosen)} faults caught")
    sys.exit(caught != len(chosen))


if __name__ == "__main__":
    main()
