"""The blocks of docs/language-models.md as they are: permits granted are calls made, settled is what was charged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from conftest import Starts
from limits import count, limit, resource
from servers import ROOT, Server, Upstream, until

PAGE = (ROOT / "docs" / "language-models.md").read_text()
CALLS = {"openai, anthropic": 1, "LangChain": 1, "LangGraph": 15}
"""How often each block calls. An agent calls three times: twice for its tools, and once for the answer."""

ELSEWHERE = {"LlamaIndex": "llama_index", "LiteLLM": "litellm", "instructor": "instructor", "DSPy": "dspy"}
"""Blocks of packages that need an older openai or jiter than this environment has: they run where the packages are."""


def block_of(section: str) -> str:
    return section.split("```python\n")[1].split("```")[0]


SECTIONS = {section.partition("\n")[0]: block_of(section) for section in PAGE.split("\n## ")[1:]}
PREAMBLE = block_of(PAGE)


def test_the_page_has_these_blocks() -> None:
    assert SECTIONS.keys() == {*CALLS, *ELSEWHERE}


@pytest.mark.parametrize("title", SECTIONS)
def test_block(
    title: str,
    scheduler: Starts,
    upstream: Callable[..., Upstream],
    tmp_path: Path,
    started: Callable[[Server], Server],
) -> None:
    if title in ELSEWHERE and find_spec(ELSEWHERE[title]) is None:
        pytest.skip(f"{title} is not installed")
    running = scheduler(resource(limit("requests", 1000, "1s"), count("tokens"), name="openai"))
    api = upstream("tokens=100000/1s", more=("--dialect", "sentinel-hub"))
    vendor = Server(tmp_path, "vendor", [sys.executable, str(Path(__file__).with_name("vendor.py")), api.url])
    started(vendor)
    url = f"{vendor.until_said(' vends').split(' vends')[0]}/v1"
    assert "http://127.0.0.1:9480" in PREAMBLE
    program = PREAMBLE.replace("http://127.0.0.1:9480", running.url) + SECTIONS[title]
    key = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": url, "OPENAI_API_BASE": url}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **key, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"},
        capture_output=True,
        check=False,
        text=True,
        timeout=140,
    )
    assert done.returncode == 0, done.stderr
    assert ("5 answers" if title == "LangGraph" else "word") in done.stdout
    calls = CALLS.get(title, 1)
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= calls or None)
    assert (running.permits(), api.stats()["ok"]) == (calls, calls)
    assert running.levels()["count"] == pytest.approx(10_000 - api.spent("tokens"), abs=0.5)
