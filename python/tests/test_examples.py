"""The examples run as they are, and the page of the documents shows the first one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from conftest import Starts
from limits import limit, resource, shared
from servers import ROOT, Upstream

EXAMPLES = ROOT / "python" / "examples"


def run(name: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    ended = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, timeout=120, check=False, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_first(scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    (few, calls), (units, area) = shared(10, 9), shared(30, 28, "processing-units")
    running, api = scheduler(resource(few, units, name="sentinel-hub")), upstream(calls, area)
    printed = run("first.py", f"{api.url}/process?processing-units=2", RAMPMETER_URL=running.url)
    assert printed.count("200 after") == 20 and api.stats()["rate_limited"] == 0
    shown = (EXAMPLES / "first.py").read_text()
    assert f"```python\n{shown}```" in (ROOT / "docs" / "python.md").read_text()


def test_the_worker_of_the_readme(scheduler: Starts, upstream: Callable[..., Upstream], tmp_path: Path) -> None:
    few, calls = shared(10, 9)
    running, api = scheduler(resource(few, name="my-api")), upstream(calls)
    shown = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    for printed, real in (("http://127.0.0.1:9480", running.url), ("http://127.0.0.1:9490", api.url)):
        assert printed in shown
        shown = shown.replace(printed, real)
    worker = tmp_path / "worker.py"
    worker.write_text(shown)
    assert run(str(worker)).count("200 after") == 20 and api.stats()["rate_limited"] == 0


def test_the_page_of_the_package(scheduler: Starts, tmp_path: Path) -> None:
    running = scheduler(resource(limit("few", 60, "1m"), name="my-api"))
    shown = (ROOT / "python" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    assert "http://127.0.0.1:9480" in shown
    program = tmp_path / "program.py"
    program.write_text(shown.replace("http://127.0.0.1:9480", running.url))
    assert run(str(program)).count("a call, after") == 5 == running.permits()


def test_sentinelhub_tiles(
    scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]
) -> None:
    (few, calls), (units, area) = shared(30, 20), shared(20, 18, "processing-units")
    running = scheduler(resource(few, units, name="sentinel-hub", more='dialect = "sentinel-hub"'))
    api = upstream(calls, area)
    secrets = {"SH_CLIENT_ID": "id", "SH_CLIENT_SECRET": "secret", "OAUTHLIB_INSECURE_TRANSPORT": "1"}
    printed = run("sentinelhub_tiles.py", RAMPMETER_URL=running.url, SH_BASE_URL=vendor(api), **secrets)
    assert "40 tiles" in printed
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (40, 0)
    assert running.permits() == 40


def test_openai_batch(scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]) -> None:
    (few, calls), (tokens, words) = shared(60, 51), shared(6000, 5400, "tokens")
    running = scheduler(resource(few, tokens, name="openai", more='classes = [{name = "bulk"}]'))
    api = upstream(calls, words, more=("--dialect", "openai"))
    key = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": f"{vendor(api)}/v1"}
    printed = run("openai_batch.py", RAMPMETER_URL=running.url, PROMPTS="100", **key)
    assert "100 answers" in printed
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (100, 0)


def test_discord_roles(scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]) -> None:
    running = scheduler(resource(limit("each", 10, "1s", margin=4, more='key = ["guild"]'), name="discord"))
    api = upstream("requests=1000/1s")
    printed = run("discord_roles.py", RAMPMETER_URL=running.url, DISCORD_API=vendor(api))
    assert printed.count("204") == 40 and api.stats()["ok"] == 40
