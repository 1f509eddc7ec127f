"""One vocabulary in four languages."""

from __future__ import annotations

import inspect
import re

import rampmeter
from servers import ROOT


def test_names_of_the_documents_are_those_of_the_languages() -> None:
    """The table of docs/workers.md; what a language lacks is a dash."""
    table = (ROOT / "docs" / "workers.md").read_text().split("## Names in each language")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "`" in line]
    assert len(rows) >= 15
    python = {*dir(rampmeter.Resource), *dir(rampmeter.Permit), *dir(rampmeter.httpx)}
    python |= {*inspect.signature(rampmeter.connect).parameters}
    python |= {*rampmeter.resource.PermitOptions.__annotations__, *rampmeter.resource.RunOptions.__annotations__}
    python |= {*rampmeter.resource.Defaults.__annotations__}
    python |= {"PermitAdapter", "Permits"} & {*dir(rampmeter.requests), *dir(rampmeter.aiohttp)}
    sources = {
        "rust": "".join(path.read_text() for path in (ROOT / "worker-sdk" / "src").rglob("*.rs")),
        "typescript": "".join(path.read_text() for path in (ROOT / "typescript" / "src").glob("*.ts")),
        "go": "".join(path.read_text() for path in (ROOT / "go").glob("*.go") if not path.stem.endswith("_test")),
    }
    for _, rust, ours, typescript, go, _ in rows:
        for name in re.findall(r"`(\w+)`", rust):
            assert re.search(rf"pub (async )?(fn|struct) {name}\b", sources["rust"]), name
        for name in re.findall(r"`(\w+)`", ours):
            assert name in python, name
        for name in re.findall(r"`(\w+)`", typescript):
            declared = rf"(readonly {name}\??:|^  (async )?{name}[(<]|export function {name}\b)"
            assert re.search(declared, sources["typescript"], re.MULTILINE), name
        for name in re.findall(r"`(\w+)`", go):
            assert re.search(rf"^func (\(\w+ \*\w+\) )?{name}\(", sources["go"], re.MULTILINE), name
    shown = inspect.signature(rampmeter.repetition.Repetition).parameters["repeats"].default
    defaults = re.findall(r"const REPEATS(?:: u32)? = (\d+)", sources["rust"] + sources["typescript"])
    defaults += re.findall(r"defaultRepeats = (\d+)", sources["go"])
    assert [str(shown), *defaults] == ["3"] * 4
