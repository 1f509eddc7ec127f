"""The examples for frameworks, as they are: a permit for each call, and no 429."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import rampmeter
from conftest import Starts
from limits import count, limit, resource, shared
from servers import ROOT, Server, Upstream, until

EXAMPLES = ROOT / "python" / "examples"
FEW, ALLOWED = shared(20, 8)


class Service(Server):
    """The example of FastAPI, in uvicorn."""

    def __init__(self, folder: Path, **environment: str) -> None:
        command = [sys.executable, "-m", "uvicorn", "fastapi_service:app", "--port", "0", "--app-dir", str(EXAMPLES)]
        settings = [f"{name}={value}" for name, value in environment.items()]
        super().__init__(folder, "service", ["env", *settings, *command])
        self.url = self.until_said("Uvicorn running on ").split("running on ")[1].split(" ")[0]


def test_a_service_of_fastapi_waits_or_tells_when_to_come_back(
    scheduler: Starts, upstream: Callable[..., Upstream], tmp_path: Path, started: Callable[[Server], Server]
) -> None:
    few = limit("few", 10, "2s", margin=2)
    running, api = scheduler(resource(few, count("requests"), name="my-api")), upstream("requests=14/2s")
    service = Service(tmp_path, RAMPMETER_URL=running.url, API_URL=f"{api.url}/process")
    started(service)

    def get(number: int) -> tuple[int, str | None]:
        try:
            with urllib.request.urlopen(f"{service.url}/tiles/{number}", timeout=60) as answer:
                return int(answer.status), None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["retry-after"]

    with ThreadPoolExecutor(60) as pool:
        answers = list(pool.map(get, range(60)))
    served = [status for status, _ in answers if status == 200]
    assert {status for status, _ in answers} == {200, 503}
    assert all(int(after or 0) >= 1 for status, after in answers if status == 503)
    assert (api.stats()["sent"], api.stats()["rate_limited"]) == (len(served), 0)
    service.stop()
    assert running.levels()["count"] == pytest.approx(10_000 - len(served), abs=0.1)


RECIPES = {"scrapy_permits": "scrapy", "ray_tiles": "ray", "prefect_flow": "prefect", "airflow_dag": "airflow"}
"""Recipes and their packages. Ray, Prefect and Airflow take minutes to install: these run where they are."""


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_request_has_a_permit(
    recipe: str, scheduler: Starts, upstream: Callable[..., Upstream], tmp_path: Path
) -> None:
    if find_spec(RECIPES[recipe]) is None:
        pytest.skip(f"{RECIPES[recipe]} is not installed")
    running, api = scheduler(resource(FEW, count("requests"), name="my-api")), upstream(ALLOWED)
    place = {"RAMPMETER_URL": running.url, "API_URL": f"{api.url}/process", "PAGES": "40"}
    homes = {"PREFECT_HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{recipe}.py")],
        env={**os.environ, **place, **homes},
        capture_output=True,
        check=False,
        text=True,
        timeout=140,
    )
    assert "40 pages\n" in done.stdout, done.stderr
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (40, 0)
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= 40 or None)
    assert running.levels()["count"] == pytest.approx(10_000 - 40, abs=0.1)


def test_progress_is_three_lines() -> None:
    """The block of the page, against limits of a test."""
    page = (ROOT / "docs" / "python.md").read_text()
    shown = next(block.split("```")[0] for block in page.split("```python\n")[1:] if "tqdm(" in block)
    with rampmeter.testing.limits({"my-api": "5/s"}):
        names: dict[str, Any] = {"urls": list(range(20)), "call": lambda url: 200, "rampmeter": rampmeter}
        exec(shown.replace("http://127.0.0.1:9480", "http://127.0.0.1:1"), names)  # noqa: S102
    assert "20/20" in str(names["bar"]) and "requests" in str(names["bar"])
