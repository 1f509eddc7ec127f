"""Workers of Dask and Celery share an account as threads of one process do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rampmeter
import work
from conftest import Starts
from limits import limit, resource, shared
from servers import Nats, Upstream, until

FEW, API = shared(20, 8)
LIMITS = resource(FEW)
CALLS = 40


@pytest.mark.parametrize("transport", ["http", "nats"])
def test_workers_of_dask(
    transport: str, nats: Nats, scheduler: Starts, upstream: Callable[..., Upstream], tmp_path: Path
) -> None:
    from distributed import Client, LocalCluster

    running, api = scheduler(LIMITS), upstream(API)
    hub = rampmeter.connect(running.url if transport == "http" else nats.url).resource("api")
    cluster = LocalCluster(
        n_workers=3,
        threads_per_worker=4,
        # Without it, all clusters of a machine listen on one port.
        dashboard_address="127.0.0.1:0",
        local_directory=str(tmp_path),
        host="127.0.0.1",
    )
    with cluster, Client(cluster) as dask:
        urls = [f"{api.url}/process?n={number}" for number in range(CALLS)]
        done = dask.gather(dask.map(work.call_here, [hub] * CALLS, urls))
    assert {status for status, _ in done} == {200}
    assert len({process for _, process in done}) == 3
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (CALLS, 0)
    # A worker that ends has sent what it had to say.
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= CALLS or None)


@pytest.fixture
def celery(tmp_path: Path) -> Iterator[Callable[[str], dict[str, str]]]:
    """Starts a worker that forks, and returns its environment."""
    workers = []

    def start(url: str) -> dict[str, str]:
        for name in ("messages", "control", "results"):
            (tmp_path / name).mkdir()
        environment = {**os.environ, "CELERY_FOLDER": str(tmp_path), "RAMPMETER_URL": url}
        command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool=prefork", "--concurrency=4"]
        with (tmp_path / "celery.log").open("wb") as log:
            quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
            here = Path(__file__).parent
            workers.append(subprocess.Popen([*command, *quiet], cwd=here, env=environment, stdout=log, stderr=log))
        return environment

    yield start
    for worker in workers:
        worker.terminate()
        worker.wait(30)


ASKING = """
import celery_app, json, sys
task = getattr(celery_app, sys.argv[3])
calls = [task.delay(f"{sys.argv[1]}/process?n={number}") for number in range(int(sys.argv[2]))]
print(json.dumps([call.get(timeout=60) for call in calls]))
"""


def asked(environment: dict[str, str], *arguments: str) -> list[Any]:
    """The results of tasks."""
    done = subprocess.run(
        [sys.executable, "-c", ASKING, *arguments],
        cwd=Path(__file__).parent,
        env=environment,
        capture_output=True,
        check=False,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    results: list[Any] = json.loads(done.stdout)
    return results


def test_workers_of_celery(
    scheduler: Starts, upstream: Callable[..., Upstream], celery: Callable[[str], dict[str, str]]
) -> None:
    running, api = scheduler(resource(FEW, name="my-api")), upstream(API)
    environment = celery(running.url)
    done = asked(environment, api.url, str(CALLS), "call")
    assert {status for status, _ in done} == {200}
    assert len({process for _, process in done}) > 1
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (CALLS, 0)
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= CALLS or None)


def test_tasks_of_celery_give_their_processes_back(
    scheduler: Starts, upstream: Callable[..., Upstream], celery: Callable[[str], dict[str, str]]
) -> None:
    """The example: a task that could not start within two seconds comes again in time."""
    running, api = scheduler(resource(limit("few", 4, "2s", margin=1), name="my-api")), upstream("requests=6/2s")
    statuses = asked(celery(running.url), api.url, "16", "fetch")
    assert statuses == [200] * 16
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (16, 0)
