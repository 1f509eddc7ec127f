"""One call with its permit, in tasks of asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

import rampmeter
from conftest import Starts
from limits import PLENTY, limit, resource, shared
from rampmeter import NotInTime, Outcome
from servers import Upstream, until


async def get(url: str) -> Outcome:
    """A small client of HTTP, for tests of tasks."""
    host, _, path = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    writer.write(f"GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
    head = (await reader.read()).decode().partition("\r\n\r\n")[0].split("\r\n")
    writer.close()
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
    return Outcome(int(head[0].split()[1]), headers)


def test_tasks_never_get_429(scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    few, allowed = shared(20, 8)
    running, api = scheduler(resource(few)), upstream(allowed)
    client = rampmeter.connect(running.url)
    hub = client.resource("api")

    async def call() -> None:
        async with hub.permit() as permit:
            permit.settle(await get(f"{api.url}/process"))

    async def main() -> None:
        await asyncio.gather(*(call() for _ in range(50)))

    before = threading.active_count()
    asyncio.run(main())
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (50, 0)
    assert client.stats().settled - client.stats().returned == client.stats().granted
    asyncio.run(main())
    assert api.stats()["ok"] == 100 and threading.active_count() == before


def test_arun_and_limited_repeat_after_a_429(scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    running = scheduler(resource(limit("wrong", 100, "1s"), more='dialect = "ietf"'))
    api = upstream("requests=3/1s", more=("--dialect", "ietf"))
    hub = rampmeter.connect(running.url).resource("api", max_wait=60)

    @hub.limited(cost=lambda url: {"requests": 1})
    async def fetch(url: str) -> Outcome:
        return await get(url)

    async def main() -> list[Outcome]:
        one = hub.arun(1, lambda: get(f"{api.url}/process"))
        return await asyncio.gather(one, *(fetch(f"{api.url}/process") for _ in range(5)))

    assert [outcome.status for outcome in asyncio.run(main())] == [200] * 6
    assert hub.client.stats().throttled == api.stats()["rate_limited"] > 0


def test_a_cancelled_wait_costs_nothing(scheduler: Starts) -> None:
    running = scheduler(resource(limit("few", 1, "2s")))
    hub = rampmeter.connect(running.url).resource("api")

    async def main() -> float:
        (await hub.permit().aacquire()).settle()
        waiting = [asyncio.create_task(hub.permit().aacquire()) for _ in range(5)]
        await asyncio.sleep(0.2)
        for task in waiting:
            task.cancel()
        assert all(
            isinstance(error, asyncio.CancelledError)
            for error in await asyncio.gather(*waiting, return_exceptions=True)
        )
        began = time.monotonic()
        async with hub.permit(max_wait=5):
            return time.monotonic() - began

    assert asyncio.run(main()) < 2.5


def test_a_long_task_keeps_its_place(scheduler: Starts) -> None:
    one = '[[resource.limit]]\nname = "one"\nalgorithm = "concurrency"\ncapacity = 1\ntime_to_live = "300ms"\n'
    running = scheduler(f'[[resource]]\nname = "api"\n{one}')
    hub = rampmeter.connect(running.url).resource("api")

    async def main() -> None:
        async with hub.permit():
            end = time.monotonic() + 1
            while time.monotonic() < end:
                with pytest.raises(NotInTime):
                    await hub.try_permit().aacquire()
                await asyncio.sleep(0.02)
        async with hub.permit(max_wait=5):
            pass

    asyncio.run(main())
    assert hub.client.stats().unrenewed == 0


def test_a_task_may_settle_in_a_thread(scheduler: Starts) -> None:
    running = scheduler(PLENTY)
    hub = rampmeter.connect(running.url).resource("api")

    async def main() -> None:
        async with hub.permit() as permit:
            await asyncio.to_thread(permit.settle, 200)

    asyncio.run(main())
    until("it is settled", lambda: running.metric("rampmeter_settled_total") == 1 or None)
