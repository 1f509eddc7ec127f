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

from faults import FAULTS
from programs import BuildFailed, Runner
from tree import COPY, FOLDER, Tree

# Which test caught a fault last, and is therefore run first.
CAUGHT = FOLDER / "caught.json"


class Trial:
    """Sees which faults the tests catch, and says it at once."""

    def __init__(self, runner, count):
        self.runner, self.count, self.done = runner, count, 0
        self.last, self.caught = caught_last(), {}
        self.lock = threading.Lock()

    def run(self, fault, number):
        begin = time.monotonic()
        tests, failed = self.first_failure(fault, number)
        if failed:
            self.caught[fault.name] = [fault.part.tests.index(tests), failed]
            self.tell(fault, f"caught by {failed} ({time.monotonic() - begin:.1f} s)")
        else:
            self.tell(fault, "SURVIVES")

    def first_failure(self, fault, number):
        index, name = self.last.get(fault.name, (0, None))
        first = fault.part.tests[min(index, len(fault.part.tests) - 1)]
        if name and self.runner.run(first, number, name):
            return first, name
        failures = ((tests, self.runner.run(tests, number)) for tests in fault.part.tests)
        return next((failure for failure in failures if failure[1]), (None, None))

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
    wanted = dict.fromkeys(tests for fault in chosen for tests in fault.part.tests)
    runner = Runner(COPY, tree.build_together(wanted))
    for tests in wanted:
        failed = runner.measure(tests)
        if failed:
            sys.exit(f"the tests fail without any fault: {failed}")
    trial = Trial(runner, len(chosen))
    try:
        try_together(trial, [fault for fault in chosen if fault.number in tree.sites.keys() - tree.alone])
        for fault in chosen:
            if fault.number in tree.misplaced:
                trial.tell(fault, tree.misplaced[fault.number])
            elif fault.number in tree.alone:
                try_alone(trial, tree, fault)
    finally:
        trial.keep()
    return len(trial.caught)


def try_together(trial, faults):
    for waits, at_once in (False, os.cpu_count()), (True, 1):
        with ThreadPoolExecutor(at_once) as pool:
            part = [fault for fault in faults if fault.part.waits == waits]
            list(pool.map(lambda fault: trial.run(fault, fault.number), part))


def try_alone(trial, tree, fault):
    try:
        trial.runner.programs |= tree.build_alone(fault)
    except BuildFailed as failed:
        trial.tell(fault, f"does not compile:\n{failed}")
    else:
        trial.run(fault, 0)


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
