"""What a permit costs that needs no wait: `python/check --long -s -k figures` prints it."""

from __future__ import annotations

import asyncio
import http.client
import statistics
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import nats as nats_py
import pytest

import rampmeter
from conftest import Starts
from limits import limit, resource
from rampmeter._drive.blocking import at_once, blocking
from servers import Nats

ENDLESS = resource(limit("plenty", 100_000_000, "1s"))
ROUNDS = 5
"""Of these rounds the best one counts, because other programs may slow the others."""

TIMES = 1000
"""Calls of a round."""

pytestmark = pytest.mark.long


def medians_ms(bare: Callable[[], object], call: Callable[[], object]) -> tuple[float, float]:
    """The medians of both in the best round. They take turns, so that other programs slow both."""
    return blocking(amedians_ms(at_once(bare), at_once(call)))


async def amedians_ms(
    bare: Callable[[], Awaitable[object]], call: Callable[[], Awaitable[object]]
) -> tuple[float, float]:
    """What `medians_ms` is, for tasks."""
    rounds = []
    for _ in range(ROUNDS):
        took: tuple[list[float], list[float]] = [], []
        for _ in range(TIMES):
            for made, times in zip((bare, call), took, strict=True):
                began = time.perf_counter()
                await made()
                times.append(1000 * (time.perf_counter() - began))
        rounds.append((statistics.median(took[0]), statistics.median(took[1])))
    print(f"    rounds: {', '.join(f'{one:.2f} and {other:.2f}' for one, other in rounds)} ms")
    return min(rounds, key=lambda each: each[1])


def permit(hub: rampmeter.Resource) -> None:
    with hub.permit() as permit:
        permit.settle(200)


def test_figures_of_one_thread_over_http(scheduler: Starts) -> None:
    running = scheduler(ENDLESS)
    hub = rampmeter.connect(running.url).resource("api")
    connection = http.client.HTTPConnection(running.url.removeprefix("http://"))

    def echo() -> None:
        connection.request("GET", "/healthz")
        connection.getresponse().read()

    permit(hub)
    bare, with_permit = medians_ms(echo, lambda: permit(hub))
    connection.close()
    print(f"HTTP, one thread, p50: permit {with_permit:.2f} ms, bare request of http.client {bare:.2f} ms")


def test_figures_of_one_task_over_nats(scheduler: Starts, nats: Nats) -> None:
    scheduler(ENDLESS)
    hub = rampmeter.connect(nats.url).resource("api")

    async def permit() -> None:
        async with hub.permit() as permit:
            permit.settle(200)

    async def main() -> tuple[float, float]:
        other = await nats_py.connect(nats.url)
        asker = await nats_py.connect(nats.url)

        async def answer(message: nats_py.aio.msg.Msg) -> None:
            await message.respond(message.data)

        await other.subscribe("echo", cb=answer)
        await other.flush()
        bare, with_permit = await amedians_ms(lambda: asker.request("echo", b"ping"), permit)
        await other.close()
        await asker.close()
        await hub.client.aclose()
        return bare, with_permit

    bare, with_permit = asyncio.run(main())
    print(f"NATS, one task, p50: permit {with_permit:.2f} ms, bare request of nats-py {bare:.2f} ms")


def test_figures_of_one_thread_over_nats(scheduler: Starts, nats: Nats) -> None:
    scheduler(ENDLESS)
    hub = rampmeter.connect(nats.url).resource("api")
    permit(hub)
    print(f"NATS, one thread, p50: permit {medians_ms(lambda: None, lambda: permit(hub))[1]:.2f} ms")
    hub.client.close()


@pytest.mark.parametrize("transport", ["http", "nats"])
def test_figures_of_64_threads(transport: str, scheduler: Starts, nats: Nats) -> None:
    running = scheduler(ENDLESS)
    hub = rampmeter.connect(running.url if transport == "http" else nats.url).resource("api")
    count, rates = 6000, []
    with ThreadPoolExecutor(64) as pool:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            list(pool.map(lambda _: permit(hub), range(count)))
            rates.append(count / (time.perf_counter() - began))
    print(f"    rounds: {' '.join(f'{rate:.0f}' for rate in rates)} permits/s")
    print(f"{transport}, 64 threads: {max(rates):.0f} permits/s")
    hub.client.close()


@pytest.mark.parametrize("transport", ["http", "nats"])
def test_figures_of_256_tasks(transport: str, scheduler: Starts, nats: Nats) -> None:
    running = scheduler(ENDLESS)
    hub = rampmeter.connect(running.url if transport == "http" else nats.url).resource("api")
    count = 16 * 1024

    async def worker(share: int) -> None:
        for _ in range(share):
            async with hub.permit() as permit:
                permit.settle(200)

    async def main() -> list[float]:
        rates = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            await asyncio.gather(*(worker(count // 256) for _ in range(256)))
            rates.append(count / (time.perf_counter() - began))
        await hub.client.aclose()
        return rates

    rates = asyncio.run(main())
    print(f"    rounds: {' '.join(f'{rate:.0f}' for rate in rates)} permits/s")
    print(f"{transport}, 256 tasks: {max(rates):.0f} permits/s")
