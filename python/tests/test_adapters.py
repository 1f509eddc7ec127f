"""The HTTP clients of Python, as shipped, behind an adapter: no caller is told 429."""

from __future__ import annotations

import asyncio
import importlib
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import httpx
import pytest
import requests

import rampmeter
import rampmeter.aiohttp
import rampmeter.httpx
import rampmeter.requests
from conftest import Starts
from limits import limit, resource, shared
from servers import Nats, Upstream
from test_restarts import kill_twice

FEW, ALLOWED = shared(20, 8)
RIGHT = resource(FEW)
WRONG = resource(limit("few", 100, "1s", more="learn = false"), more='dialect = "ietf"\nfollow = "written"')
"""The upstream allows far less: each client sees some 429s below its adapter, and repeats them."""

LITTLE = "requests=12/4s"
"""24 calls within 4 s see a 429."""

KINDS = pytest.mark.parametrize(
    ("configuration", "allowed", "may_see"), [(RIGHT, ALLOWED, False), (WRONG, LITTLE, True)]
)


def check(api: Upstream, client: rampmeter.Client, statuses: list[int], may_see: bool) -> None:
    """All calls were answered 200, and none was lost."""
    assert statuses == [200] * len(statuses)
    client.flush()
    counts, stats = api.stats(), client.stats()
    assert counts["ok"] == len(statuses) and counts["rate_limited"] == stats.throttled
    assert (stats.throttled > 0) == may_see and stats.granted == counts["sent"] == stats.settled - stats.returned


@KINDS
def test_requests(
    configuration: str, allowed: str, may_see: bool, scheduler: Starts, upstream: Callable[..., Upstream]
) -> None:
    running, api = scheduler(configuration), upstream(allowed, more=("--dialect", "ietf"))
    client = rampmeter.connect(running.url)
    adapter = rampmeter.requests.PermitAdapter(client.resource("api"), cost=lambda request: 1, max_wait=60, repeats=20)
    with requests.Session() as session, ThreadPoolExecutor(8) as pool:
        session.mount(api.url, adapter)
        bodies: list[object] = [None, b"bytes", {"form": "data"}]

        def post(number: int) -> int:
            return session.post(f"{api.url}/process", data=bodies[number % 3]).status_code  # type: ignore[arg-type]

        check(api, client, list(pool.map(post, range(24))), may_see)


def test_requests_sends_a_stream_once(scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    running, api = scheduler(WRONG), upstream("requests=1/1h", more=("--dialect", "ietf"))
    hub = rampmeter.connect(running.url).resource("api")
    with requests.Session() as session:
        session.mount(api.url, rampmeter.requests.PermitAdapter(hub))
        assert session.post(f"{api.url}/process", data=iter([b"a", b"b"])).status_code == 200
        assert session.post(f"{api.url}/process", data=iter([b"a", b"b"])).status_code == 429
        with pytest.raises(rampmeter.NotInTime):
            session.mount(api.url, rampmeter.requests.PermitAdapter(hub, max_wait=0.2))
            session.post(f"{api.url}/process", data=io.BytesIO(b"a file"))


@pytest.mark.parametrize("module", ["httpx", "httpx2"])
@KINDS
def test_httpx(
    module: str, configuration: str, allowed: str, may_see: bool, scheduler: Starts, upstream: Callable[..., Upstream]
) -> None:
    httpx = importlib.import_module(module)
    running, api = scheduler(configuration), upstream(allowed, more=("--dialect", "ietf"))
    client = rampmeter.connect(running.url)
    hub = client.resource("api", max_wait=60)
    transport = rampmeter.httpx.Transport(hub, httpx.HTTPTransport(), cost=lambda request: 1, repeats=20)
    with httpx.Client(transport=transport) as session, ThreadPoolExecutor(8) as pool:
        posts = pool.map(lambda _: session.post(f"{api.url}/process", json={"a": 1}).status_code, range(12))
        statuses = list(posts)

    async def main() -> list[int]:
        transport = rampmeter.httpx.AsyncTransport(hub, httpx.AsyncHTTPTransport(), repeats=20)
        async with httpx.AsyncClient(transport=transport, timeout=5) as session:
            calls = (session.get(f"{api.url}/process") for _ in range(12))
            return [response.status_code for response in await asyncio.gather(*calls)]

    check(api, client, statuses + asyncio.run(main()), may_see)


@KINDS
def test_aiohttp(
    configuration: str, allowed: str, may_see: bool, scheduler: Starts, upstream: Callable[..., Upstream]
) -> None:
    running, api = scheduler(configuration), upstream(allowed, more=("--dialect", "ietf"))
    client = rampmeter.connect(running.url)
    permits = rampmeter.aiohttp.Permits(
        client.resource("api"), cost=lambda request: {"requests": 1}, max_wait=60, repeats=20
    )

    async def main() -> list[int]:
        async with aiohttp.ClientSession(middlewares=(permits,)) as session:

            async def post(number: int) -> int:
                async with session.post(f"{api.url}/process", json={"number": number}) as response:
                    await response.read()
                    return response.status

            return list(await asyncio.gather(*(post(number) for number in range(24))))

    check(api, client, asyncio.run(main()), may_see)


@pytest.mark.parametrize("kind", ["requests", "httpx", "httpx in asyncio", "aiohttp"])
def test_adapters_outlive_killed_servers(
    kind: str, nats: Nats, scheduler: Starts, upstream: Callable[..., Upstream]
) -> None:
    """Scheduler and NATS are killed while their calls wait."""
    running, api = scheduler(RIGHT), upstream(ALLOWED)
    hub = rampmeter.connect(running.url).resource("api")
    url, count = f"{api.url}/process", 40

    def in_threads(client: requests.Session | httpx.Client) -> list[int]:
        with client, ThreadPoolExecutor(9) as pool:
            killing = pool.submit(kill_twice, running, nats)
            statuses = list(pool.map(lambda _: client.get(url).status_code, range(count)))
            killing.result()
        return statuses

    async def in_tasks() -> list[int]:
        killing = asyncio.create_task(asyncio.to_thread(kill_twice, running, nats))
        if kind == "aiohttp":
            async with aiohttp.ClientSession(middlewares=(rampmeter.aiohttp.Permits(hub),)) as session:

                async def get(_: int) -> int:
                    async with session.get(url) as answer:
                        return answer.status

                statuses = await asyncio.gather(*map(get, range(count)))
        else:
            transport = rampmeter.httpx.AsyncTransport(hub, httpx.AsyncHTTPTransport())
            async with httpx.AsyncClient(transport=transport, timeout=60) as client:
                answers = await asyncio.gather(*(client.get(url) for _ in range(count)))
                statuses = [answer.status_code for answer in answers]
        await killing
        return list(statuses)

    if kind == "requests":
        session = requests.Session()
        session.mount(api.url, rampmeter.requests.PermitAdapter(hub))
        statuses = in_threads(session)
    elif kind == "httpx":
        statuses = in_threads(httpx.Client(transport=rampmeter.httpx.Transport(hub, httpx.HTTPTransport())))
    else:
        statuses = asyncio.run(in_tasks())
    assert statuses == [200] * count
    assert (api.stats()["ok"], api.stats()["rate_limited"], hub.client.stats().denied) == (count, 0, 0)
