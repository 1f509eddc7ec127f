"""Schedulers and NATS die and come back; no caller sees an error, and the account is not overrun."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import threading
import time
from collections.abc import Callable

import pytest

import rampmeter
import work
from conftest import Starts
from limits import resource, shared
from servers import Nats, Scheduler, Upstream

FEW, API = shared(20, 8)
LIMITS = resource(FEW)


def kill_twice(*servers: Nats | Scheduler) -> None:
    """Kills servers while callers call."""
    for server in servers:
        time.sleep(0.7)
        server.kill()
        if isinstance(server, Scheduler):
            server.restart()
        else:
            server.start()


def test_threads_outlive_a_killed_scheduler(scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    running, api = scheduler(LIMITS), upstream(API)
    hub = rampmeter.connect(running.url).resource("api")
    calls = threading.Thread(target=work.calls, args=(hub, f"{api.url}/process", 8, 60))
    calls.start()
    kill_twice(running, running)
    calls.join()
    hub.client.flush()
    stats = hub.client.stats()
    assert (api.stats()["ok"], api.stats()["rate_limited"], stats.denied) == (60, 0, 0)
    assert stats.granted == 60


def test_forks_outlive_killed_nats_and_scheduler(
    nats: Nats, scheduler: Starts, upstream: Callable[..., Upstream]
) -> None:
    running, api = scheduler(LIMITS), upstream(API)
    hub = rampmeter.connect(running.url).resource("api")
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=work.calls, args=(hub, f"{api.url}/process", 4, 15)) for _ in range(4)]
    for child in children:
        child.start()
    kill_twice(nats, running)
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (60, 0)


def test_tasks_outlive_a_killed_scheduler(scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    from test_tasks import get

    running, api = scheduler(LIMITS), upstream(API)
    hub = rampmeter.connect(running.url).resource("api")

    async def call() -> None:
        async with hub.permit() as permit:
            permit.settle(await get(f"{api.url}/process"))

    async def main() -> None:
        killing = asyncio.to_thread(kill_twice, running, running)
        await asyncio.gather(killing, *(call() for _ in range(60)))

    asyncio.run(main())
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (60, 0)
    assert hub.client.stats().denied == 0


def test_people_are_told_of_a_silent_scheduler(scheduler: Starts, caplog: pytest.LogCaptureFixture) -> None:
    running = scheduler(LIMITS)
    running.kill()
    hub = rampmeter.connect(running.url).resource("api")
    waiting = threading.Thread(target=lambda: hub.permit().acquire().settle())
    with caplog.at_level(logging.WARNING, "rampmeter"):
        waiting.start()
        end = time.monotonic() + 10
        while not caplog.records and time.monotonic() < end:
            time.sleep(0.05)
        running.restart()
        waiting.join(20)
    first, last = caplog.records[0].message, caplog.records[-1].message
    assert "no scheduler of resource 'api' has answered for 2 s" in first and "refused" in first
    assert "answers again" in last and len(caplog.records) == 2
