"""The vendors' packages behind `rampmeter proxy`, changed in their URL alone: 0 × 429, 0 lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
import requests

from conftest import Starts
from limits import count, ideal, is_in_time, resource, shared
from servers import Nats, Proxy, Server, Upstream, until
from test_vendors import BURST, TOKENS, prompts, tile, units_of

IN_FLIGHT = 64
THREE_BANDS = '//VERSION=3\nfunction setup() { return {input: ["B02", "B03", "B04"], output: {bands: 3}} }'
"""512 × 512 pixels of three bands are one processing unit."""


class Holds:
    """Starts a proxy in front of a URL."""

    def __init__(self, folder: Path, nats: Nats, started: Callable[[Server], Server]) -> None:
        self._folder, self._nats, self._started, self._count = folder, nats, started, 0

    def __call__(self, url: str, name: str, more: str = "") -> str:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        server = Proxy(folder, self._nats, f'[[proxy]]\nupstream = "{url}"\nresource = "{name}"\n{more}\n')
        self._started(server)
        return server.url


@pytest.fixture
def proxy(tmp_path: Path, nats: Nats, started: Callable[[Server], Server]) -> Iterator[Holds]:
    folder = tmp_path / "proxy"
    folder.mkdir()
    yield Holds(folder, nats, started)


def check(api: Upstream, calls: int, took: float, best: float) -> None:
    print(f"{calls} calls: {took:.2f} s, ideal {best:.2f} s")
    stats = api.stats()
    assert (stats["ok"], stats["rate_limited"]) == (calls, 0)
    assert is_in_time(took, best)


def test_requests(scheduler: Starts, upstream: Callable[..., Upstream], proxy: Holds) -> None:
    few, allowed = shared(30, 50)
    scheduler(resource(few))
    api = upstream(allowed)
    url = proxy(api.url, "api")
    began = time.monotonic()
    with requests.Session() as session, ThreadPoolExecutor(10) as pool:
        statuses = list(pool.map(lambda _: session.post(f"{url}/process", data=b"a body").status_code, range(120)))
    assert statuses == [200] * 120
    check(api, 120, time.monotonic() - began, ideal(120, 30, 50))


def test_openai_with_streams(
    scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str], proxy: Holds
) -> None:
    (few, allowed), (tokens, words) = shared(30, BURST), shared(6000, 11800, "tokens")
    scheduler(TOKENS + few + tokens)
    api = upstream(allowed, words, more=("--dialect", "openai"))
    direct = vendor(api)
    url = proxy(direct, "model", 'tokens = { total = "tokens" }')
    calls = 150
    with openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as client:

        def ask(prompt: str) -> int:
            messages: list[Any] = [{"role": "user", "content": prompt}]
            if prompt[0] in "13579":
                with client.chat.completions.create(model="m", messages=messages, max_tokens=60, stream=True) as events:
                    return sum(bool(event.choices) for event in events)
            answer = client.chat.completions.create(model="m", messages=messages, max_tokens=60)
            return answer.usage.completion_tokens if answer.usage else 0

        began = time.monotonic()
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            assert all(pool.map(ask, prompts(calls)))
        check(api, calls, time.monotonic() - began, ideal(calls, 30, BURST))

    def stream(of: str) -> tuple[bytes, str]:
        asked = {"model": "m", "max_tokens": 60, "stream": True, "messages": [{"role": "user", "content": "Count."}]}
        with requests.post(f"{of}/v1/chat/completions", json=asked, timeout=60) as answer:
            return answer.content, answer.headers["content-type"]

    assert stream(url) == stream(direct), "byte for byte"


def test_anthropic_with_streams(
    scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str], proxy: Holds
) -> None:
    (few, allowed), (reads, read) = shared(15, 60), shared(9000, 17600, "input-tokens")
    writes, written = shared(3000, 5600, "output-tokens")
    scheduler(resource(few, reads, writes, name="model", more="learn_costs = []"))
    api = upstream(allowed, read, written, more=("--dialect", "sentinel-hub"))
    units = 'tokens = { input = "input-tokens", output = "output-tokens" }'
    calls = 150
    with anthropic.Anthropic(base_url=proxy(vendor(api), "model", units), api_key="key", max_retries=0) as client:

        def say(prompt: str) -> bool:
            messages: list[Any] = [{"role": "user", "content": prompt}]
            if prompt[0] in "13579":
                with client.messages.create(model="m", messages=messages, max_tokens=60, stream=True) as events:
                    return [event.type for event in events][-1] == "message_stop"
            return bool(client.messages.create(model="m", messages=messages, max_tokens=60).content)

        began = time.monotonic()
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            assert all(pool.map(say, prompts(calls)))
        check(api, calls, time.monotonic() - began, ideal(calls, 15, 60))


def test_sentinelhub(
    scheduler: Starts,
    upstream: Callable[..., Upstream],
    vendor: Callable[[Upstream], str],
    proxy: Holds,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The price is in the body: no call is estimated, and none has to be settled with another."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    (few, allowed), (area, policy) = shared(30, 290), shared(20, 160, "processing-units")
    unpriced = 'dialect = "plain"\nstart = "full"\nlearn_costs = []'
    counted = count("processing-units")
    running = scheduler(resource(few, area, counted, name="sentinel-hub", more=unpriced))
    api = upstream(allowed, policy)
    url = proxy(vendor(api), "sentinel-hub", 'price = "sentinel-hub"')
    units = units_of(100)
    began = time.monotonic()
    with ThreadPoolExecutor(32) as pool:
        tiles = [tile(url, amount, THREE_BANDS) for amount in units]
        pictures = list(pool.map(lambda request: request.get_data(), tiles))
    took = time.monotonic() - began
    assert [len(found) for found in pictures] == [1] * len(units)
    check(api, len(units), took, ideal(sum(units), 20, 160))
    assert api.spent("processing-units") == sum(units)
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= len(units) or None)
    assert running.levels()["count"] == pytest.approx(10_000 - sum(units), abs=0.1)
