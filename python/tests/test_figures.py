"""What a permit costs that needs no wait: `python/check --long -s -k figures` prints it."""

from __future__ import annotations

import asyncio
import http.client
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import nats as nats_py
import pytest

import rampmeter
from conftest import Starts
from limits import limit, resource
from servers import Nats

ENDLESS = resource(limit("plenty", 100_000_000, "1s"))
ROUNDS = 5
"""Of these rounds the best one counts, because other programs may slow the others."""

pytestmark = pytest.mark.long


def median_ms(call: Callable[[], object], times: int = 1000) -> float:
    """The best median of all rounds."""
    medians = []
    for _ in range(ROUNDS):
        took = []
        for _ in range(times):
            began = time.perf_counter()
            call()
            took.append(time.perf_counter() - began)
        medians.append(1000 * statistics.median(took))
    print(f"    rounds: {' '.join(f'{median:.2f}' for median in medians)} ms")
    return min(medians)


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
    bare, with_permit = median_ms(echo), median_ms(lambda: permit(hub))
    connection.close()
    print(f"HTTP, one thread, p50: permit {with_permit:.2f} ms, bare request of http.client {bare:.2f} ms")


def test_figures_of_one_task_over_nats(scheduler: Starts, nats: Nats) -> None:
    scheduler(ENDLESS)
    hub = rampmeter.connect(nats.url).resource("api")

    async def median(call: Callable[[], object]) -> float:
        medians = []
        for _ in range(ROUNDS):
            took = []
            for _ in range(1000):
                began = time.perf_counter()
                await call()  # type: ignore[misc]
                took.append(time.perf_counter() - began)
            medians.append(1000 * statistics.median(took))
        print(f"    rounds: {' '.join(f'{median:.2f}' for median in medians)} ms")
        return min(medians)

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
        bare = await median(lambda: asker.request("echo", b"ping"))
        with_permit = await median(permit)
        await other.close()
        await asker.close()
        await hub.client.aclose()
        return with_permit, bare

    with_permit, bare = asyncio.run(main())
    print(f"NATS, one task, p50: permit {with_permit:.2f} ms, bare request of nats-py {bare:.2f} ms")


def test_figures_of_one_thread_over_nats(scheduler: Starts, nats: Nats) -> None:
    scheduler(ENDLESS)
    hub = rampmeter.connect(nats.url).resource("api")
    permit(hub)
    print(f"NATS, one thread, p50: permit {median_ms(lambda: permit(hub)):.2f} ms")
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
