"""Each call has one permit, 429s end, and what is settled is what was called."""

from __future__ import annotations

import asyncio
import gc
import importlib
import itertools
import json
import pickle
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from typing import Any

import aiohttp
import anthropic
import httpx
import openai
import pytest
import requests

import rampmeter
from api import Api, Quiet, serving
from conftest import Starts
from limits import PLENTY, count, limit, resource
from servers import Scheduler, until

CLIENTS = ("requests", "httpx", "httpx2", "httpx in tasks", "httpx2 in tasks", "aiohttp")


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as api:
        yield api


def settled(running: Scheduler, hub: rampmeter.Resource, api: Api) -> None:
    """Permits granted are calls made, and all are settled."""
    hub.client.flush()
    stats = hub.client.stats()
    assert stats.granted == api.calls
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= stats.granted or None)
    assert running.permits() == api.calls


def get(kind: str, hub: rampmeter.Resource, url: str, times: int = 1, **terms: Any) -> list[tuple[int, str]]:
    """Statuses and bodies of calls at once, by one client."""
    if kind == "requests":
        with requests.Session() as session, ThreadPoolExecutor(times) as pool:
            session.mount("http://", rampmeter.requests.PermitAdapter(hub, **terms))
            answers = list(pool.map(lambda _: session.get(url), range(times)))
            return [(answer.status_code, answer.text) for answer in answers]
    package: Any = importlib.import_module(kind.partition(" ")[0])
    if kind in ("httpx", "httpx2"):
        client = rampmeter.httpx.with_permits(package.Client(timeout=30), hub, **terms)
        with client, ThreadPoolExecutor(times) as pool:
            found = list(pool.map(lambda _: client.get(url), range(times)))
            return [(answer.status_code, answer.text) for answer in found]

    async def in_tasks() -> list[tuple[int, str]]:
        if kind == "aiohttp":
            async with aiohttp.ClientSession(middlewares=(rampmeter.aiohttp.Permits(hub, **terms),)) as session:

                async def one() -> tuple[int, str]:
                    async with session.get(url) as answer:
                        return answer.status, (await answer.content.read()).decode()

                return await asyncio.gather(*(one() for _ in range(times)))
        async with rampmeter.httpx.with_permits(package.AsyncClient(timeout=30), hub, **terms) as session:
            found = await asyncio.gather(*(session.get(url) for _ in range(times)))
            return [(answer.status_code, answer.text) for answer in found]

    return asyncio.run(in_tasks())


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_429_reaches_the_caller_after_three_repetitions(kind: str, scheduler: Starts, api: Api) -> None:
    """Its body comes along, and its connection is kept. What no wait mends is not repeated."""
    running = scheduler(PLENTY)
    hub = rampmeter.connect(running.url).resource("api", max_wait=30)
    [(status, text)] = get(kind, hub, f"{api.url}/throttled")
    assert (status, api.calls, api.connections) == (429, 4, 1) and "rate_limit_exceeded" in text
    [(status, text)] = get(kind, hub, f"{api.url}/spent")
    assert (status, api.calls) == (429, 5) and "insufficient_quota" in text
    assert [status for status, _ in get(kind, hub, f"{api.url}/throttled", repeats=1)] == [429] and api.calls == 7
    settled(running, hub, api)


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_refusal_after_a_429_has_its_response(kind: str, scheduler: Starts, api: Api) -> None:
    hub = rampmeter.connect(scheduler(PLENTY).url).resource("api", max_wait=0.5)
    with pytest.raises(rampmeter.NotInTime) as late:
        get(kind, hub, f"{api.url}/throttled/long")
    response = late.value.response
    assert getattr(response, "status_code", None) or response.status == 429
    assert rampmeter.outcome.code_of(response) == "rate_limit_exceeded" and api.calls == 1
    assert pickle.loads(pickle.dumps(late.value)) == late.value  # noqa: S301


TAKING = 0.2
"""Seconds in which this front takes settles."""


class SlowFront(BaseHTTPRequestHandler):
    """Grants at once, and notes what was asked for and taken of which call, in order."""

    protocol_version = "HTTP/1.1"
    told: list[tuple[str, str, str]] = []  # noqa: RUF012
    calls: dict[str, str] = {}  # noqa: RUF012

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = body if isinstance(body, list) else [body]
        is_settle = self.path.startswith("/v1/settle/")
        if is_settle:
            time.sleep(TAKING)
        for message in messages:
            call = self.calls.setdefault(message["id"], message.get("labels", {}).get("call", ""))
            told = ("settle" if is_settle else "permit", call, message["id"])
            if told not in self.told:  # A loop that ends sends again what has no answer.
                self.told.append(told)
        granted = {"status": "granted", "delay_ms": 0, "epoch": 1}
        answers = [{"id": each["id"], **({"status": "settled"} if is_settle else granted)} for each in messages]
        text = json.dumps(answers if isinstance(body, list) else answers[0]).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def slow_front() -> Iterator[str]:
    SlowFront.told.clear()
    server = Quiet(("127.0.0.1", 0), SlowFront)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.mark.parametrize("kind", ["threads", "tasks", *CLIENTS])
def test_a_call_is_repeated_when_a_scheduler_knows_of_its_429(kind: str, slow_front: str, api: Api) -> None:
    """The request for its next permit could overtake the settle, on another connection."""
    with rampmeter.connect(slow_front) as client:
        hub, times = client.resource("api"), 6

        def one(call: int) -> int:
            return hub.run(1, lambda: 429, labels={"call": str(call)}, repeats=2)

        async def in_tasks() -> list[int]:
            async def made() -> int:
                return 429

            return await asyncio.gather(*(hub.arun(1, made, labels={"call": str(n)}, repeats=2) for n in range(times)))

        if kind == "threads":
            with ThreadPoolExecutor(times) as pool:
                statuses = list(pool.map(one, range(times)))
        elif kind == "tasks":
            statuses = asyncio.run(in_tasks())
        else:
            numbers = itertools.count()
            answers = get(
                kind, hub, f"{api.url}/throttled", times, repeats=2, labels=lambda _: {"call": str(next(numbers))}
            )
            statuses = [status for status, _ in answers]
    assert statuses == [429] * times
    for call in map(str, range(times)):
        told = [what for what, told_of, _ in SlowFront.told if told_of == call]
        assert told == ["permit", "settle"] * 3


def test_run_ends_with_the_answer_or_the_error(scheduler: Starts, api: Api) -> None:
    running = scheduler(PLENTY)
    hub = rampmeter.connect(running.url).resource("api")
    url = f"{api.url}/throttled"
    assert hub.run(1, lambda: requests.get(url, timeout=9)).status_code == 429 and api.calls == 4

    @hub.limited
    def fetch(path: str) -> requests.Response:
        answer = requests.get(f"{api.url}{path}", timeout=9)
        answer.raise_for_status()
        return answer

    with pytest.raises(requests.HTTPError, match="429"):
        fetch("/throttled")
    assert api.calls == 8

    async def main() -> int:
        async with httpx.AsyncClient() as client:
            return (await hub.arun(1, lambda: client.get(url), repeats=1)).status_code

    assert asyncio.run(main()) == 429 and api.calls == 10
    with pytest.raises(rampmeter.NotInTime) as late:
        hub.run(1, lambda: fetch.__wrapped__("/throttled/long"), max_wait=0.5)  # type: ignore[attr-defined]
    assert isinstance(late.value.__cause__, requests.HTTPError) and late.value.response.status_code == 429
    settled(running, hub, api)


def test_packages_of_models_raise_their_own_error(scheduler: Starts, api: Api) -> None:
    """Not even the package repeats it again."""
    running = scheduler(
        PLENTY.replace("tokens", "input-tokens") + limit("t", 1e6, "1s", "tokens") + count("output-tokens")
    )
    hub = rampmeter.connect(running.url).resource("api", max_wait=30)
    messages: Any = [{"role": "user", "content": "Count."}]
    for word, calls in (("spent", 1), ("throttled", 5)):
        with (
            openai.OpenAI(
                base_url=f"{api.url}/{word}", api_key="key", http_client=rampmeter.openai.http_client(hub)
            ) as client,
            pytest.raises(openai.RateLimitError, match="too much"),
        ):
            client.chat.completions.create(model="m", messages=messages, max_tokens=9)
        assert api.calls == calls
    with (
        anthropic.Anthropic(
            base_url=f"{api.url}/throttled", api_key="key", http_client=rampmeter.anthropic.http_client(hub)
        ) as claude,
        pytest.raises(anthropic.RateLimitError, match="too much"),
    ):
        claude.messages.create(model="m", messages=messages, max_tokens=9)
    assert api.calls == 9
    settled(running, hub, api)


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_call_lasts_as_long_as_its_body_where_places_are_counted(kind: str, scheduler: Starts, api: Api) -> None:
    places = '[[resource.limit]]\nname = "places"\nalgorithm = "concurrency"\ncapacity = 2\ntime_to_live = "5s"\n'
    running = scheduler(f'[[resource]]\nname = "api"\n{places}')
    hub = rampmeter.connect(running.url).resource("api", max_wait=30)
    answers = get(kind, hub, f"{api.url}/slow", times=8)
    assert answers == [(200, "x" * 6000)] * 8 and api.most_at_once == 2
    settled(running, hub, api)


def test_a_body_that_nobody_reads_frees_its_place(scheduler: Starts, api: Api) -> None:
    places = '[[resource.limit]]\nname = "places"\nalgorithm = "concurrency"\ncapacity = 1\ntime_to_live = "5s"\n'
    hub = rampmeter.connect(scheduler(f'[[resource]]\nname = "api"\n{places}').url).resource("api", max_wait=5)
    with requests.Session() as session:
        session.mount("http://", rampmeter.requests.PermitAdapter(hub))
        for _ in range(3):
            session.get(f"{api.url}/slow", stream=True).close()
            session.get(f"{api.url}/slow", stream=True)  # Forgotten at once.
    with rampmeter.httpx.with_permits(httpx.Client(), hub) as client:
        for _ in range(3):
            with client.stream("GET", f"{api.url}/slow"):
                pass
    assert api.calls == 9


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_call_without_a_connection_is_given_back(kind: str, scheduler: Starts) -> None:
    running = scheduler(resource(limit("few", 1, "1h")))
    hub = rampmeter.connect(running.url).resource("api", max_wait=5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for _ in range(3):
        with pytest.raises(OSError if kind == "requests" else Exception, match=r"(?i)connect|refused"):
            get(kind, hub, url)
    permit = hub.permit().acquire()
    with pytest.raises(urllib.error.URLError) as failed:
        urllib.request.urlopen(url)
    permit.settle(failed.value)
    with pytest.raises(requests.ConnectionError):
        hub.run(1, lambda: requests.get(url, timeout=9))
    hub.client.flush()
    # Five permits of one in an hour. One whose start was missed is given back, too.
    assert hub.client.stats().granted == 5 <= hub.client.stats().returned
    with pytest.raises(ConnectionRefusedError), hub.permit():
        raise ConnectionRefusedError("a database that is down")
    with pytest.raises(rampmeter.NotInTime), hub.permit(max_wait=0.2):
        pass  # The call of the block may have been made before, so that it counts.


def test_an_api_of_openai_that_is_gone_costs_nothing(scheduler: Starts) -> None:
    hub = rampmeter.connect(scheduler(PLENTY).url).resource("api")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with (
        openai.OpenAI(base_url=url, api_key="key", http_client=rampmeter.openai.http_client(hub)) as client,
        pytest.raises(openai.APIConnectionError),
    ):
        client.models.list()
    stats = hub.client.stats()
    assert stats.granted == 3 <= stats.returned, "the package has tried three times"


def test_a_stream_that_is_left_is_settled_with_what_has_come(scheduler: Starts, api: Api) -> None:
    running = scheduler(resource(limit("requests", 100, "1s"), count("tokens")))
    hub = rampmeter.connect(running.url).resource("api")
    messages: Any = [{"role": "user", "content": "Count."}]

    def leave(client: openai.OpenAI) -> None:
        for number, _ in enumerate(
            client.chat.completions.create(model="m", messages=messages, max_tokens=900, stream=True)
        ):
            if number == 2:
                break

    with openai.OpenAI(base_url=api.url, api_key="key", http_client=rampmeter.openai.http_client(hub)) as client:
        leave(client)
        gc.collect()
        hub.client.flush()
        until("it is settled", lambda: running.metric("rampmeter_settled_total") == 1 or None)
        assert 9_950 < running.levels()["count"] < 10_000


def test_proxies_of_the_environment_and_other_options_count(
    scheduler: Starts, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = rampmeter.connect(scheduler(PLENTY).url).resource("api")
    monkeypatch.setenv("HTTP_PROXY", api.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    away = "http://upstream.invalid/v1"
    with openai.OpenAI(
        base_url=away, api_key="key", http_client=rampmeter.openai.http_client(hub), max_retries=0
    ) as client:
        client.models.list()
    with httpx.Client(timeout=7) as bare:
        assert rampmeter.httpx.with_permits(bare, hub).get(away).status_code == 200
        assert rampmeter.httpx.with_permits(bare, hub).get(away).status_code == 200, "twice is once"
    model = rampmeter.anthropic.http_client(hub, http2=False, timeout=7)
    assert model.timeout.read == 7
    model.close()
    assert api.calls == hub.client.stats().granted == 3


def test_a_session_of_requests_can_be_pickled(scheduler: Starts, api: Api) -> None:
    hub = rampmeter.connect(scheduler(PLENTY).url).resource("api")
    session = requests.Session()
    session.mount("http://", rampmeter.requests.PermitAdapter(hub, repeats=0))
    with pickle.loads(pickle.dumps(session)) as copy:  # noqa: S301
        assert copy.get(f"{api.url}/throttled").status_code == 429
    assert api.calls == 1


def test_langchain_has_a_permit_for_each_call(scheduler: Starts, api: Api) -> None:
    from langchain_openai import ChatOpenAI

    running = scheduler(PLENTY)
    hub = rampmeter.connect(running.url).resource("api")
    threads, tasks = rampmeter.openai.http_client(hub), rampmeter.openai.async_http_client(hub)
    key: Any = "key"
    chat = ChatOpenAI(model="m", base_url=api.url, api_key=key, http_client=threads, http_async_client=tasks)
    assert chat.invoke("Count.").content == "ok" and [answer.content for answer in chat.batch(["a", "b"])] == ["ok"] * 2
    assert sum(len(str(part.content)) for part in chat.stream("Count.")) == 100

    async def main() -> None:
        assert (await chat.ainvoke("Count.")).content == "ok"
        assert [answer.content for answer in await chat.abatch(["a", "b", "c"])] == ["ok"] * 3
        assert sum([len(str(part.content)) async for part in chat.astream("Count.")]) == 100
        await tasks.aclose()

    asyncio.run(main())
    threads.close()
    assert api.calls == 9
    settled(running, hub, api)
