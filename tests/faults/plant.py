#!/usr/bin/env python3
"""Plants faults in the core, in sessions, in jobs, in HTTP, in evalscripts and in the proxy, and sees
whether a test fails for each.

    tests/faults/plant.py              all of them
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

    def run(self, part, faults):
        """A round of tests has the faults that all rounds before it have left."""
        with ThreadPoolExecutor(1 if part.waits else os.cpu_count()) as pool:
            last = {self.last_catch(fault) for fault in faults} - {None}
            list(pool.map(lambda chosen: self.measure(*chosen), last))
            faults = self.round(pool, faults, self.last_catch)
            for tests in part.tests:
                for names in self.groups(tests) if faults else ():
                    faults = self.round(pool, faults, lambda _, chosen=(tests, names): chosen)
        for fault in faults:
            self.tell(fault, "SURVIVES")

    def round(self, pool, faults, choice):
        """The faults that the chosen tests do not catch."""
        tries = [(fault, fault.number, choice(fault)) for fault in faults]
        caught = pool.map(lambda each: self.attempt(*each), tries)
        return [fault for fault, is_caught in zip(faults, caught, strict=True) if not is_caught]

    def groups(self, tests):
        self.measure(tests)
        return self.runner.quick_and_slow(tests)

    def last_catch(self, fault):
        """The test that caught a fault last."""
        *program, name = self.last.get(fault.name, [None, None, None])
        return next(((tests, (name,)) for tests in fault.part.tests if program == [tests.package, tests.target]), None)

    def measure(self, tests, names=()):
        """Ends all if tests fail without any fault."""
        failed = self.runner.measure(tests, names)
        if failed:
            sys.exit(f"the tests fail without any fault: {failed}")

    def attempt(self, fault, number, chosen):
        """Whether one of the chosen tests fails by the fault."""
        if not chosen:
            return False
        begin = time.monotonic()
        tests, names = chosen
        failed = self.runner.run(tests, number, names)
        if failed:
            self.caught[fault.name] = tests.package, tests.target, failed
            self.tell(fault, f"caught by {failed} ({time.monotonic() - begin:.1f} s)")
        return bool(failed)

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
    wanted = [(tests, ()) for tests in fault.part.tests]
    for tests, _ in wanted:
        trial.measure(tests)
    try:
        trial.runner.programs |= tree.build_alone(fault)
    except BuildFailed as failed:
        trial.tell(fault, f"does not compile:\n{failed}")
    else:
        if not any(trial.attempt(fault, 0, chosen) for chosen in wanted):
            trial.tell(fault, "SURVIVES")


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
