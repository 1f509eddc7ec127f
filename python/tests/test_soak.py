"""Clients at work for a while: `RAMPMETER_SOAK=600 python/check -s -k soak` lets each of them work for ten minutes.

Judged is what the user pays: permits granted are calls made, settled is what the vendor has charged, no call
is answered 429 or lost, and no more calls are in flight than the limit has places.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import time
import urllib.request
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import aiohttp
import anthropic
import httpx
import openai
import pytest
import requests
from langchain_openai import ChatOpenAI

import rampmeter
from conftest import Starts
from limits import resource, shared
from servers import Upstream, until
from test_vendors import PROMPT, SCRIPT, download

SECONDS = float(os.environ.get("RAMPMETER_SOAK", "4"))
RATE = 20
"""Calls in a second that the vendor allows."""

PLACES = 4
"""Calls in flight. With bodies of a tenth of a second they are nearly as scarce as the rate."""

IN_FLIGHT = f"""
[[resource.limit]]
name = "in-flight"
algorithm = "concurrency"
capacity = {PLACES}
time_to_live = "30s"
"""

STOCK = 100_000_000
QUOTA = f"""
[[resource.limit]]
name = "all-{{unit}}"
unit = "{{unit}}"
algorithm = "quota"
resets = "never"
learn = false
capacity = {STOCK}
"""
"""What it lacks was settled."""

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather of a place. " * 5,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def words(number: int) -> list[Any]:
    return [{"role": "user", "content": f"{number}: {PROMPT * (1 + number % 4)}"}]


def in_threads(threads: int, calls: int, call: Callable[[int], object]) -> None:
    with ThreadPoolExecutor(threads) as pool:
        assert all(pool.map(call, range(calls)))


async def in_tasks(tasks: int, calls: int, call: Callable[[int], Awaitable[object]]) -> None:
    """Each task takes the next call."""
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            assert await call(number)

    await asyncio.gather(*(work() for _ in range(tasks)))


def by_sentinelhub(hub: rampmeter.Resource, url: str, calls: int) -> None:
    """16 processes of 8 threads, as forks make them."""
    units = [1 + number % 4 for number in range(calls)]
    context = multiprocessing.get_context("fork")
    slow = f"{SCRIPT} // slow"
    children = [context.Process(target=download, args=(hub, url, 8, units[first::16], slow)) for first in range(16)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 16


def by_openai(hub: rampmeter.Resource, url: str, calls: int) -> None:
    """Streams, tools, slow answers and embeddings."""

    async def main() -> None:
        transport = rampmeter.openai.async_http_client(hub)
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key", http_client=transport) as client:
            chats: Any = client.chat.completions

            async def ask(number: int) -> object:
                asked = {"model": "slow", "messages": words(number), "max_tokens": 60}
                if number % 4 == 0:
                    return [event async for event in await chats.create(**asked, stream=True)]
                if number % 4 == 1:
                    chosen = {"type": "function", "function": {"name": "weather"}}
                    answer = await chats.create(**asked, tools=[TOOL], tool_choice=chosen)
                    return answer.choices[0].message.tool_calls
                if number % 4 == 2:
                    return (await chats.create(**asked)).choices
                return (await client.embeddings.create(model="m", input=[list(range(100))])).data

            await in_tasks(256, calls, ask)

    asyncio.run(main())


def by_anthropic(hub: rampmeter.Resource, url: str, calls: int) -> None:
    """Prompts that the vendor keeps, and now and then a new one."""
    with anthropic.Anthropic(base_url=url, api_key="key", http_client=rampmeter.anthropic.http_client(hub)) as client:

        def ask(number: int) -> object:
            text = f"{number // 200}: {'words of a book ' * 50}"
            kept: Any = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
            asked: Any = {"model": "slow", "system": kept, "messages": words(number), "max_tokens": 60}
            if number % 2 == 0:
                return client.messages.create(**asked).content
            with client.messages.stream(**asked) as events:
                return "".join(events.text_stream)

        in_threads(64, calls, ask)


def by_langchain(hub: rampmeter.Resource, url: str, calls: int) -> None:
    """Half of the calls in threads, and then half in tasks."""
    key: Any = "key"
    threads, tasks = rampmeter.openai.http_client(hub), rampmeter.openai.async_http_client(hub)
    clients: Any = {"http_client": threads, "http_async_client": tasks}
    chat = ChatOpenAI(model="slow", base_url=f"{url}/v1", api_key=key, max_tokens=60, **clients)  # type: ignore[call-arg]
    with_tool = chat.bind_tools([TOOL], tool_choice="weather")

    def ask(number: int) -> object:
        if number % 3 == 0:
            return list(chat.stream(words(number)))
        return chat.invoke(words(number)) if number % 3 == 1 else with_tool.invoke(words(number)).tool_calls  # type: ignore[attr-defined]

    async def ask_in_a_task(number: int) -> object:
        if number % 3 == 0:
            return [part async for part in chat.astream(words(number))]
        return await (chat if number % 3 == 1 else with_tool).ainvoke(words(number))

    async def main() -> None:
        await in_tasks(64, calls - calls // 2, ask_in_a_task)
        await tasks.aclose()

    with threads:
        in_threads(32, calls // 2, ask)
    asyncio.run(main())


def by_requests(hub: rampmeter.Resource, url: str, calls: int) -> None:
    with requests.Session() as session:
        session.mount("http://", rampmeter.requests.PermitAdapter(hub))
        in_threads(32, calls, lambda _: session.get(f"{url}/slow").ok)


def by_httpx(hub: rampmeter.Resource, url: str, calls: int) -> None:
    """Half of the calls in threads, and then half in tasks."""

    async def main() -> None:
        async with rampmeter.httpx.with_permits(httpx.AsyncClient(), hub) as client:

            async def get(_: int) -> bool:
                return (await client.get(f"{url}/slow")).is_success

            await in_tasks(64, calls - calls // 2, get)

    with rampmeter.httpx.with_permits(httpx.Client(), hub) as client:
        in_threads(32, calls // 2, lambda _: client.get(f"{url}/slow").is_success)
    asyncio.run(main())


def by_aiohttp(hub: rampmeter.Resource, url: str, calls: int) -> None:
    async def main() -> None:
        async with aiohttp.ClientSession(middlewares=(rampmeter.aiohttp.Permits(hub),)) as session:

            async def get(_: int) -> bool:
                async with session.get(f"{url}/slow", timeout=aiohttp.ClientTimeout(None)) as answer:
                    await answer.read()
                    return answer.ok

            await in_tasks(256, calls, get)

    asyncio.run(main())


class Kind(NamedTuple):
    """A client, the dialect of its vendor, and what that allows of each unit: in a second, and at once."""

    make: Callable[[rampmeter.Resource, str, int], None]
    dialect: str = "plain"
    units: dict[str, tuple[float, float]] = {}  # noqa: RUF012


TOKENS = {"tokens": (3000.0, 9000.0)}
KINDS = {
    "sentinelhub": Kind(by_sentinelhub, "sentinel-hub", {"processing-units": (60, 120)}),
    "openai": Kind(by_openai, "openai", TOKENS),
    "anthropic": Kind(by_anthropic, units={"input-tokens": (6000, 18_000), "output-tokens": (1500, 6000)}),
    "langchain": Kind(by_langchain, "openai", TOKENS),
    "requests": Kind(by_requests),
    "httpx": Kind(by_httpx),
    "aiohttp": Kind(by_aiohttp),
}


@pytest.mark.timeout(150 + 2 * SECONDS)
@pytest.mark.parametrize("name", KINDS)
def test_soak(
    name: str, scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]
) -> None:
    kind, calls = KINDS[name], round(RATE * SECONDS)
    pairs = [shared(RATE, RATE), *(shared(*allowed, unit) for unit, allowed in kind.units.items())]
    units = ["requests", *kind.units]
    quotas = [QUOTA.format(unit=unit) for unit in units]
    more = f'dialect = "{kind.dialect}"\nstart = "full"\nlearn_costs = []'
    running = scheduler(resource(*(ours for ours, _ in pairs), *quotas, IN_FLIGHT, more=more))
    api = upstream(*(theirs for _, theirs in pairs), more=("--dialect", kind.dialect))
    url, hub = vendor(api), rampmeter.connect(running.url).resource("api")
    began = time.monotonic()
    kind.make(hub, url, calls)
    took = time.monotonic() - began
    hub.client.flush()
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= calls or None)
    stats, levels = api.stats(), running.levels()
    with urllib.request.urlopen(f"{url}/most") as answer:
        most = json.load(answer)["in_flight"]
    paid = {unit: (round(STOCK - levels[f"all-{unit}"], 3), api.spent(unit)) for unit in units}
    print(f"{name}: {calls} calls in {took:.1f} s, {most} in flight, {stats['rate_limited']} × 429, settled {paid}")
    assert (stats["sent"], stats["ok"], stats["rate_limited"]) == (calls, calls, 0)
    assert running.permits() == calls and most <= PLACES
    for unit, (settled, charged) in paid.items():
        assert settled == pytest.approx(charged, rel=0.01), unit
