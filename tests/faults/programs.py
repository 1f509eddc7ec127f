"""Builds the tests of a tree, and runs them by the number of a fault."""

import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import tomllib
from dataclasses import dataclass

from schemata import VARIABLE

ENDED = re.compile(r"test (\S+)(?: - .*)? \.\.\. (ok|FAILED)$")
# The part of all the time that quick tests take together.
QUICK = 0.1
# A fault may make a test hang instead of fail.
PATIENCE_S = 60
PATIENCE_TIMES = 5
# One failing case is enough: it need not be made smaller, or kept for the next run.
FIRST_CASE = {"PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true"}


@dataclass(frozen=True)
class Program:
    """The tests that one file was built from, and the folder of their package."""

    path: str
    folder: str


class BuildFailed(Exception):
    """What the compiler says, and the files and lines that this is about."""

    def __init__(self, errors, otherwise):
        super().__init__("\n".join(error["rendered"] for error in errors) or otherwise)
        spans = (span for error in errors for span in error["spans"] if span["is_primary"])
        self.spans = [(span["file_name"], span["line_start"]) for span in spans]


def build(tree, folder, wanted):
    """The programs of the wanted tests by their package and target."""
    packages = sorted({f"--package={tests.package}" for tests in wanted})
    targets = sorted({"--lib" if tests.target == "lib" else f"--test={tests.target}" for tests in wanted})
    command = ["cargo", "test", "--no-run", "--message-format=json", f"--target-dir={folder}", *packages, *targets]
    # These programs are not debugged, and without lines they are linked sooner.
    environment = {"CARGO_PROFILE_DEV_DEBUG": "0", **os.environ}
    ran = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    messages = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode != 0:
        said = [message["message"] for message in messages if message["reason"] == "compiler-message"]
        raise BuildFailed([message for message in said if message["level"] == "error"], ran.stderr)
    built = [message for message in messages if message.get("executable") and message["profile"]["test"]]
    return dict(map(program, built))


def program(artifact):
    package = re.search(r"#(.*)@", artifact["package_id"])[1]
    target = "lib" if "lib" in artifact["target"]["kind"] else artifact["target"]["name"]
    return (package, target), Program(artifact["executable"], os.path.dirname(artifact["manifest_path"]))


class Runner:
    """Runs programs as Cargo runs them, and knows how long each takes without a fault."""

    def __init__(self, tree, programs):
        variables = tomllib.loads((pathlib.Path(tree) / ".cargo/config.toml").read_text())["env"]
        self.environment = {**variables, **os.environ, **FIRST_CASE}
        self.programs = programs
        self.at_once = int(self.environment["RUST_TEST_THREADS"])
        # How long tests with these names take together, and each of a program alone.
        self.usual, self.took = {}, {}

    def measure(self, tests, names=()):
        """The first test that fails without any fault, or nothing."""
        if (tests, names) in self.usual:
            return None
        ended = {}
        failed = self.run(tests, 0, names, ended)
        self.usual[tests, names] = max(ended.values(), default=0)
        if not names:
            self.took[tests] = self.durations(ended)
        return failed

    def durations(self, ended):
        """The harness starts tests by their names, and the next one whenever one has ended."""
        begins = [0.0] * self.at_once + sorted(ended.values())
        return {name: ended[name] - begin for name, begin in zip(sorted(ended), begins, strict=False)}

    def quick_and_slow(self, tests):
        """The names of the tests in two parts, of which the first takes a tenth of the time."""
        took = self.took[tests]
        by_time = sorted(took, key=took.get)
        sums = list(itertools.accumulate(took[name] for name in by_time))
        quick = sum(so_far <= QUICK * sums[-1] for so_far in sums)
        for names in tuple(by_time[:quick]), tuple(by_time[quick:]):
            if names:
                times = [took[name] for name in names]
                self.usual[tests, names] = max(max(times), sum(times) / self.at_once)
                yield names

    def run(self, tests, number, names=(), ended=None):
        """The first test that fails by this fault, or nothing. Further tests are spared then."""
        program = self.programs[tests.package, tests.target]
        filters = ["--exact", *names] if names else [tests.only] if tests.only else []
        begin = time.monotonic()
        run = subprocess.Popen(
            [program.path, *filters],
            cwd=program.folder,
            env={**self.environment, "CARGO_MANIFEST_DIR": program.folder, VARIABLE: str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        seconds = PATIENCE_S + PATIENCE_TIMES * self.usual.get((tests, names), PATIENCE_S)
        patience = threading.Timer(seconds, end, [run])
        patience.start()
        failed = None
        with run:
            for test in filter(None, map(ENDED.match, run.stdout)):
                if test[2] == "FAILED":
                    failed = test[1]
                    end(run)
                    break
                if ended is not None:
                    ended[test[1]] = time.monotonic() - begin
        in_time = patience.is_alive()
        patience.cancel()
        if failed:
            return failed
        if not in_time:
            return f"no end within {seconds:.0f} s"
        return f"the end of {tests.package} {tests.target}: {run.returncode}" if run.returncode else None


def end(run):
    """Ends the tests and the servers that they started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
