#!/usr/bin/env python3
"""Plants faults in the core, one at a time, and sees whether a test falls for each.

    tests/faults/plant.py              all of them, some minutes
    tests/faults/plant.py headroom     those whose name has this in it
    tests/faults/plant.py --list       their names

A copy of the working tree under target/faults is what is changed; the tree itself is not touched. Ends with 1 if a fault
survives the tests, or can't be planted any more because the code has moved on.
"""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "target" / "faults" / "tree"
TESTS = ["cargo", "test", "--quiet", "-p", "rampmeter-scheduler-core", "-p", "rampmeter-simulator"]
# A fault may make a test hang instead of fail.
PATIENCE_S = 600

# name, file in scheduler-core/src, what stands there, what is planted
FAULTS = [
    ("a sign", "bucket.rs", "level - start.cost", "level + start.cost"),
    ("a missing cap", "bucket.rs", "(self.base + limit.rate().refill(now)).min(limit.full())", "self.base + limit.rate().refill(now)"),
    ("a refund without room", "bucket.rs", "let returned = credit.min(room);", "let returned = credit.max(room.min(credit));"),
    ("rounding in favour of the caller", "credit.rs", "(credit.0 - 1) / self.per_nano + 1", "credit.0 / self.per_nano"),
    ("headroom ignored", "limit.rs", "(cost + self.headrooms[usize::from(tier)]).min(self.full)", "cost.min(self.full)"),
    ("the margin forgotten", "limit.rs", "full: rate.credit(spec.capacity) - rate.credit(margin),", "full: rate.credit(spec.capacity),"),
    ("one bucket is enough", "ledger.rs", "if agreeing >= bill.len()", "if agreeing >= 1"),
    ("nobody behind is looked at", "bucket.rs", "self.spares(limit, gap, start, draw)?;", ""),
    ("a lost queue entry", "order.rs", "self.root = self.merge(resource, before, after);\n    }\n\n    /// Gives", "self.root = before.or(after);\n    }\n\n    /// Gives"),
    ("idle clients save credit", "clients.rs", "client.end.max(clock))", "client.end)"),
    ("weights ignored", "resource.rs", ".copied().unwrap_or(Weight::ONE)", ".map_or(Weight::ONE, |_| Weight::ONE)"),
    ("clocks stand still", "clients.rs", "*clock = tag.max(*clock);", "*clock = *clock;"),
    ("free service is counted", "clients.rs", "contended != Shape::default());", "true);"),
    ("limits that nobody waits for give credit", "clients.rs", "shape.and(self.held).limits().map(|limit| self.clock(limit)).min()", "shape.limits().map(|limit| self.clock(limit)).min()"),
    ("clocks pass those who wait", "line.rs", "entry.turn.tag);\n        let (share", "entry.turn.tag).filter(|_| false);\n        let (share"),
    ("the less urgent first", "plan.rs", "(0..self.lines.len()).map(|index| ClassId(index as u8)) {", "(0..self.lines.len()).rev().map(|index| ClassId(index as u8)) {"),
    ("no late binding", "plan.rs", "if offer.at > now + self.resource.horizon()", "if offer.at == Time::NEVER"),
    ("holds are kept", "plan.rs", "self.release(&holds);", ""),
    ("nobody is ever promoted", "plan.rs", "filter(|(at, _)| *at <= now)", "filter(|(at, _)| *at < Time::ORIGIN)"),
    ("a repeated id is charged again", "ask.rs", "ask.id.as_ref().and_then(|id| self.permits.find(id))", "None"),
    ("deadlines are forgotten", "ask.rs", "self.deadlines.insert((deadline, place, slot));", ""),
]


def copy_tree():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    names = set(listed.stdout.splitlines())
    for old in [path for path in COPY.rglob("*") if path.is_file()]:
        if str(old.relative_to(COPY)) not in names:
            old.unlink()
    for name in names:
        source, target = ROOT / name, COPY / name
        if source.is_file() and (not target.exists() or target.read_bytes() != source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def tests_fall():
    """Whether they do, and the first line that says which."""
    target = COPY.parent / "build"
    try:
        run = subprocess.run([*TESTS, "--target-dir", str(target)], cwd=COPY, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return True, f"no end within {PATIENCE_S} s"
    if "could not compile" in run.stderr:
        sys.exit("it does not even compile:\n" + run.stderr)
    told = [line for line in run.stdout.splitlines() if line.startswith("---- ")]
    return run.returncode != 0, told[0].strip("- ").removesuffix(" stdout") if told else ""


def plant(name, file, right, wrong):
    """Whether a test fell."""
    path = COPY / "scheduler-core" / "src" / file
    text = path.read_text()
    if text.count(right) != 1:
        print(f"{name}: `{right}` stands {text.count(right)} times in {file}", flush=True)
        return False
    try:
        path.write_text(text.replace(right, wrong))
        fell, told = tests_fall()
    finally:
        path.write_text(text)
    print(f"{name}: {'caught by' if fell else 'SURVIVES'} {told}", flush=True)
    return fell


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if wanted == "--list":
        return print("\n".join(fault[0] for fault in FAULTS))
    if wanted in ("-h", "--help"):
        return print(__doc__.strip())
    chosen = [fault for fault in FAULTS if wanted in fault[0]]
    if not chosen:
        sys.exit(f"no fault has `{wanted}` in its name; see --list")
    copy_tree()
    fell, told = tests_fall()
    if fell:
        sys.exit(f"the tests fall without any fault: {told}")
    caught = sum(plant(*fault) for fault in chosen)
    print(f"{caught} of {len(chosen)} faults caught")
    sys.exit(caught != len(chosen))


if __name__ == "__main__":
    main()
