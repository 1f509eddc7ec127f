"""The vendors' packages as shipped, against a server that enforces: 0 × 429, 0 lost, little waste."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import httpx
import openai
import pytest
from sentinelhub import (
    CRS,
    BBox,
    DataCollection,
    Geometry,
    MimeType,
    SentinelHubRequest,
    SentinelHubStatistical,
    SHConfig,
)
from sentinelhub.exceptions import DownloadFailedException

import rampmeter
import rampmeter.anthropic
import rampmeter.openai
import rampmeter.sentinelhub
from conftest import Starts
from limits import count, ideal, is_in_time, limit, resource, shared
from rampmeter._model.estimate import estimate, labels_of
from servers import Nats, Scheduler, Upstream, binary, until
from test_restarts import kill_twice

BOX = BBox((14.0, 46.0, 14.1, 46.1), CRS.WGS84)
SCRIPT = '//VERSION=3\nfunction setup() { return {input: ["B04"], output: {bands: 1}} }'


def config_of(url: str) -> SHConfig:
    config = SHConfig()
    config.sh_base_url, config.sh_token_url = url, f"{url}/token"
    config.sh_client_id, config.sh_client_secret = "id", "secret"
    config.max_download_attempts = 1
    return config


def tile(url: str, units: int, script: str = SCRIPT) -> SentinelHubRequest:
    """A request of so many processing units: 512 × 512 pixels are one."""
    collection = DataCollection.SENTINEL2_L2A.define_from(f"S2-{os.getpid()}-{url[-5:]}", service_url=url)
    return SentinelHubRequest(
        evalscript=script,
        input_data=[SentinelHubRequest.input_data(collection)],
        responses=[SentinelHubRequest.output_response("default", MimeType.PNG)],
        bbox=BOX,
        size=(512, 512 * units),
        config=config_of(url),
    )


def statistics(url: str, units: int) -> SentinelHubStatistical:
    collection = DataCollection.SENTINEL2_L2A.define_from(f"S2-{os.getpid()}-{url[-5:]}", service_url=url)
    aggregation = SentinelHubStatistical.aggregation(
        evalscript=SCRIPT,
        time_interval=("2026-01-01", "2026-01-04"),
        aggregation_interval="P1D",
        size=(512, 512 * units),
    )
    data = [SentinelHubStatistical.input_data(collection)]
    return SentinelHubStatistical(
        aggregation=aggregation, input_data=data, geometry=Geometry(BOX.geometry, CRS.WGS84), config=config_of(url)
    )


def download(hub: rampmeter.Resource, url: str, threads: int, units: list[int], script: str = SCRIPT) -> None:
    """What one process does: as people write it, with one line more."""
    os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"
    rampmeter.sentinelhub.install(hub)
    tiles = [tile(url, amount, script) for amount in units]
    with ThreadPoolExecutor(threads) as pool:
        pictures = list(pool.map(lambda request: request.get_data(), tiles))
    if [len(found) for found in pictures] != [1] * len(units):
        os._exit(1)


def units_of(calls: int) -> list[int]:
    """Processing units of so many requests: 1 to 6."""
    return [1 + (7 * number) % 6 for number in range(calls)]


def check_sentinel_hub(
    processes: int,
    threads: int,
    calls: int,
    rate: float,
    burst: float,
    running: Scheduler,
    api: Upstream,
    url: str,
) -> None:
    hub = rampmeter.connect(running.url).resource("sentinel-hub")
    units = units_of(calls)
    context = multiprocessing.get_context("fork")
    parts = [units[number::processes] for number in range(processes)]
    children = [context.Process(target=download, args=(hub, url, threads, part)) for part in parts]
    began = time.monotonic()
    for child in children:
        child.start()
    for child in children:
        child.join()
    took, best = time.monotonic() - began, ideal(sum(units), rate, burst)
    print(f"{processes} forks × {threads} threads, {calls} calls, {sum(units)} PU: {took:.2f} s, ideal {best:.2f} s")
    assert [child.exitcode for child in children] == [0] * processes
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (calls, 0)
    assert api.spent("processing-units") == sum(units)
    assert is_in_time(took, best)
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= calls or None)
    # It refills by one in an hour.
    assert running.levels()["count"] == pytest.approx(10_000 - sum(units), abs=0.1)


SENTINEL_HUB = """
[[resource]]
name = "sentinel-hub"
dialect = "sentinel-hub"
start = "full"
"""


def test_sentinelhub_in_forks(
    scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]
) -> None:
    (few, allowed), (units, area) = shared(30, 290), shared(20, 160, "processing-units")
    running, api = scheduler(SENTINEL_HUB + few + units + count("processing-units")), upstream(allowed, area)
    check_sentinel_hub(4, 8, 100, 20, 160, running, api, vendor(api))


def test_sentinelhub_statistics_and_a_class_of_clients(
    scheduler: Starts,
    upstream: Callable[..., Upstream],
    vendor: Callable[[Upstream], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The estimate of the area is a third of the price of three days: the header settles the rest."""
    from sentinelhub import SentinelHubDownloadClient, SentinelHubStatisticalDownloadClient

    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    units, area = shared(10, 28, "processing-units")
    running, api = scheduler(SENTINEL_HUB + units), upstream("requests=1000/1s", area)
    url = vendor(api)
    hub = rampmeter.connect(running.url).resource("sentinel-hub")

    def cost(request: Any) -> dict[str, float]:
        body = request.post_values
        days = 3 if "aggregation" in body else 1
        size = body.get("aggregation", body.get("output"))
        return {"processing-units": days * size["width"] * size["height"] / 262_144}

    undo = rampmeter.sentinelhub.install(hub, cost=cost)
    try:
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda request: request.get_data(), [statistics(url, 1) for _ in range(12)]))
        assert [answer[0]["status"] for answer in found] == ["OK"] * 12
    finally:
        undo()
    for kind in (SentinelHubDownloadClient, SentinelHubStatisticalDownloadClient):
        limited = rampmeter.sentinelhub.client(hub, kind, cost=cost)
        request = tile(url, 1) if kind is SentinelHubDownloadClient else statistics(url, 1)
        assert len(limited(config=config_of(url)).download(request.download_list)) == 1
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (14, 0)
    assert hub.client.stats().granted == 14 and api.spent("processing-units") == 3 * 12 + 1 + 3


def test_an_installation_is_made_once(
    scheduler: Starts,
    upstream: Callable[..., Upstream],
    vendor: Callable[[Upstream], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cell of a notebook that runs again, `client.run` of Dask, a reload: each call has one permit."""
    from sentinelhub import SentinelHubDownloadClient

    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    running = scheduler(SENTINEL_HUB + limit("requests", 1000, "1s") + count("processing-units"))
    api = upstream("requests=1000/1s", "processing-units=1000/1s")
    url, calls, before = vendor(api), 0, SentinelHubDownloadClient._do_download
    for _ in range(4):
        hub = rampmeter.connect(running.url).resource("sentinel-hub")
        undo = rampmeter.sentinelhub.install(hub, cost={"requests": 1, "processing-units": 3})
        tile(url, 3).get_data()
        importlib.reload(rampmeter.sentinelhub)
        calls += 1
    limited = rampmeter.sentinelhub.client(hub)
    limited(config=config_of(url)).download(tile(url, 3).download_list)
    with pytest.raises(rampmeter.InvalidArgument, match="'sentinel-hub' of http"):
        rampmeter.sentinelhub.install(rampmeter.connect(running.url).resource("another"))
    hub.client.flush()
    assert running.permits() == calls + 1 == api.stats()["ok"]
    assert api.spent("processing-units") == 10_000 - round(running.levels()["count"])
    undo()
    assert SentinelHubDownloadClient._do_download is before


def test_a_spent_quota_of_sentinel_hub_is_told_from_a_forbidden_call(
    scheduler: Starts,
    upstream: Callable[..., Upstream],
    vendor: Callable[[Upstream], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    quota = 'name = "month"\nalgorithm = "quota"\nresets = "month"\ncapacity = 1000\n'
    hub = rampmeter.connect(scheduler(f"{SENTINEL_HUB}[[resource.limit]]\n{quota}").url).resource("sentinel-hub")
    url = vendor(upstream("requests=1000/1s"))
    undo = rampmeter.sentinelhub.install(hub, cost=1, max_wait=5)
    try:
        for code in ("ACCESS_FORBIDDEN", "ACCESS_INSUFFICIENT_PROCESSING_UNITS"):
            with pytest.raises(DownloadFailedException, match="403"):
                tile(url, 1, f"{SCRIPT} // 403 {code}").get_data()
        hub.client.flush()
        with pytest.raises(rampmeter.Refused, match="quota_spent"):
            tile(url, 1).get_data()
    finally:
        undo()


PROMPT = "Describe the river, the mountain and the town beside them. "


def prompts(count: int) -> Iterator[str]:
    return (f"{number}: {PROMPT * (1 + number % 4)}" for number in range(count))


BURST = 57
TOKENS = '[[resource]]\nname = "model"\ndialect = "openai"\n'


def test_openai_in_threads_and_tasks(
    scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]
) -> None:
    (few, allowed), (tokens, words) = shared(30, BURST), shared(6000, 11800, "tokens")
    running, api = scheduler(TOKENS + few + tokens), upstream(allowed, words, more=("--dialect", "openai"))
    url = vendor(api)
    hub = rampmeter.connect(running.url).resource("model")
    client = openai.OpenAI(
        base_url=f"{url}/v1", api_key="key", http_client=rampmeter.openai.http_client(hub), max_retries=0
    )

    def ask(prompt: str) -> int:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        if prompt[0] in "13579":
            with client.chat.completions.create(model="m", messages=messages, max_tokens=60, stream=True) as events:
                return sum(bool(event.choices) for event in events)
        answer = client.chat.completions.create(model="m", messages=messages, max_tokens=60)
        return answer.usage.completion_tokens if answer.usage else 0

    began = time.monotonic()
    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(ask, prompts(100)))
    check_model(api, hub, 100, time.monotonic() - began)
    client.close()

    async def main() -> float:
        model = openai.AsyncOpenAI(
            base_url=f"{url}/v1", api_key="key", http_client=rampmeter.openai.async_http_client(hub), max_retries=0
        )

        async def ask(prompt: str) -> None:
            messages: list[Any] = [{"role": "user", "content": prompt}]
            if prompt[0] in "13579":
                events = await model.chat.completions.create(model="m", messages=messages, max_tokens=60, stream=True)
                assert [event async for event in events]
            else:
                answer = await model.chat.completions.create(model="m", messages=messages, max_tokens=60)
                assert answer.choices

        began = time.monotonic()
        await asyncio.gather(*map(ask, prompts(256)))
        took = time.monotonic() - began
        await model.close()
        return took

    check_model(api, hub, 356, asyncio.run(main()), done=100)


def test_each_model_has_its_limits(
    scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]
) -> None:
    """The preset as `rampmeter init openai` writes it, with one request a minute for each model."""
    preset = subprocess.run([binary(), "init", "openai"], check=True, capture_output=True, text=True).stdout
    running = scheduler(preset.replace("capacity = 500\n", "capacity = 1\n"))
    api = upstream("tokens=100000/1s", more=("--dialect", "sentinel-hub"))
    url, hub = vendor(api), rampmeter.connect(running.url).resource("openai", max_wait=0)
    messages: list[Any] = [{"role": "user", "content": "Count."}]

    def ask(model: str, resource: rampmeter.Resource = hub, **options: Any) -> str:
        transport = rampmeter.openai.http_client(resource, **options)
        with openai.OpenAI(base_url=f"{url}/v1", api_key="key", http_client=transport, max_retries=0) as client:
            return client.chat.completions.create(model=model, messages=messages, max_tokens=9).model

    assert [ask("gpt-a"), ask("gpt-b")] == ["gpt-a", "gpt-b"]
    with pytest.raises(openai.RateLimitError, match="not_in_time: ") as late:
        ask("gpt-a")
    assert late.value.response.extensions["rampmeter"].limited_by == "requests"
    assert ask("gpt-a", labels={"model": "another"}) == "gpt-a"
    assert ask("gpt-a", labels=lambda request: {"model": request.method}) == "gpt-a"
    assert ask("gpt-a", hub.with_options(labels={"model": "of all"})) == "gpt-a"


def test_each_model_of_anthropic_has_its_limits(
    scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]
) -> None:
    units = [limit(unit, 1000, "1s", unit=unit) for unit in ("input-tokens", "output-tokens")]
    running = scheduler(resource(limit("one", 1, "1h", more='key = ["model"]'), *units, more='unmatched = "refuse"'))
    url = vendor(upstream("requests=100000/1s", more=("--dialect", "sentinel-hub")))
    hub = rampmeter.connect(running.url).resource("api", max_wait=0)
    transport = rampmeter.anthropic.http_client(hub, labels={"team": "a"})
    messages: list[Any] = [{"role": "user", "content": "Count."}]
    with anthropic.Anthropic(base_url=url, api_key="key", http_client=transport, max_retries=0) as client:
        for model in ("opus", "haiku"):
            assert client.messages.create(model=model, messages=messages, max_tokens=9).model == model
        with pytest.raises(anthropic.RateLimitError, match="not_in_time: ") as late:
            client.messages.create(model="opus", messages=messages, max_tokens=9)
        assert isinstance(late.value.response.extensions["rampmeter"], rampmeter.NotInTime)
    # With the package's own retries, a call that never fits is refused once.
    before = hub.client.stats().denied
    transport = rampmeter.anthropic.http_client(hub)
    with (
        anthropic.Anthropic(base_url=url, api_key="key", http_client=transport) as client,
        pytest.raises(anthropic.BadRequestError, match="never_fits: "),
    ):
        client.messages.create(model="opus", messages=messages, max_tokens=2000)
    assert hub.client.stats().denied == before + 1


def test_a_body_that_is_a_file_names_no_model() -> None:
    file = httpx.Request("POST", "http://host/v1/files", files={"file": b"a recording"})
    assert (labels_of(file), estimate(file)) == ({"model": "none"}, (0, 0))


def check_model(api: Upstream, hub: rampmeter.Resource, calls: int, took: float, done: int = 0) -> None:
    """No call was refused or lost; the time is that of the requests' limit, full at first only."""
    stats = api.stats()
    best = ideal(calls - done, 30, 0 if done else BURST)
    print(f"{calls - done} calls: {took:.2f} s, ideal {best:.2f} s, {api.spent('tokens'):.0f} tokens")
    assert (stats["ok"], stats["rate_limited"]) == (calls, 0)
    assert hub.client.stats().denied == 0
    assert is_in_time(took, best)


UNITS = ("tokens", "input-tokens", "output-tokens", "processing-units")


def test_vendors_outlive_killed_servers(
    nats: Nats, scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]
) -> None:
    """Scheduler and NATS are killed under openai, anthropic and forks of sentinelhub-py."""
    few, allowed = shared(20, 8)
    unlimited = [limit(unit, 1_000_000, "1s", unit=unit) for unit in UNITS]
    running, api = scheduler(resource(few, *unlimited)), upstream(allowed)
    url, hub = vendor(api), rampmeter.connect(running.url).resource("api")
    client = openai.OpenAI(
        base_url=f"{url}/v1", api_key="key", http_client=rampmeter.openai.http_client(hub), max_retries=0
    )

    def ask(prompt: str) -> bool:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        return bool(client.chat.completions.create(model="m", messages=messages, max_tokens=60).choices)

    with ThreadPoolExecutor(33) as pool:
        killing = pool.submit(kill_twice, running, nats)
        assert all(pool.map(ask, prompts(60)))
        killing.result()
    client.close()
    claude = anthropic.Anthropic(
        base_url=url, api_key="key", http_client=rampmeter.anthropic.http_client(hub), max_retries=0
    )

    def say(prompt: str) -> bool:
        return bool(claude.messages.create(model="m", messages=[{"role": "user", "content": prompt}], max_tokens=60))

    with ThreadPoolExecutor(33) as pool:
        killing = pool.submit(kill_twice, running, nats)
        assert all(pool.map(say, prompts(40)))
        killing.result()
    claude.close()
    units = [1] * 30
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=download, args=(hub, url, 4, units)) for _ in range(2)]
    for child in children:
        child.start()
    kill_twice(nats, running)
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (160, 0)


def test_a_cancelled_stream_gives_back_what_it_did_not_use(
    scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]
) -> None:
    """An hour's stock of 1000 tokens: ten streams of at most 900 fit only if each gives back."""
    running = scheduler(TOKENS + limit("tokens", 1000, "1h", unit="tokens") + limit("requests", 9, "1s"))
    api = upstream("tokens=100000/1s", more=("--dialect", "sentinel-hub"))
    hub = rampmeter.connect(running.url).resource("model", max_wait=5)
    url = vendor(api)
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="key", http_client=rampmeter.openai.http_client(hub))
    for _ in range(4):
        messages: list[Any] = [{"role": "user", "content": "Count."}]
        with client.chat.completions.create(model="m", messages=messages, max_tokens=900, stream=True) as events:
            for _, _ in zip(range(3), events, strict=False):
                pass
    client.close()
    hub.client.flush()
    assert hub.client.stats().settled >= 4


def test_anthropic_in_threads_and_tasks(
    scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str]
) -> None:
    (few, calls), (reads, read) = shared(40, 77), shared(9000, 17600, "input-tokens")
    writes, written = shared(3000, 5600, "output-tokens")
    running = scheduler(f'[[resource]]\nname = "model"\n{few}{reads}{writes}')
    api = upstream(calls, read, written, more=("--dialect", "sentinel-hub"))
    url = vendor(api)
    hub = rampmeter.connect(running.url).resource("model")
    client = anthropic.Anthropic(
        base_url=url, api_key="key", http_client=rampmeter.anthropic.http_client(hub), max_retries=0
    )

    def ask(prompt: str) -> int:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        if prompt[0] in "13579":
            with client.messages.stream(model="m", messages=messages, max_tokens=60) as events:
                return len("".join(events.text_stream))
        return client.messages.create(model="m", messages=messages, max_tokens=60).usage.output_tokens

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(ask, prompts(60)))
    client.close()

    async def main() -> float:
        model = anthropic.AsyncAnthropic(
            base_url=url, api_key="key", http_client=rampmeter.anthropic.async_http_client(hub), max_retries=0
        )

        async def ask(prompt: str) -> None:
            messages: list[Any] = [{"role": "user", "content": prompt}]
            if prompt[0] in "13579":
                async with model.messages.stream(model="m", messages=messages, max_tokens=60) as events:
                    assert [text async for text in events.text_stream]
            else:
                assert (await model.messages.create(model="m", messages=messages, max_tokens=60)).content

        began = time.monotonic()
        await asyncio.gather(*map(ask, prompts(256)))
        took = time.monotonic() - began
        await model.close()
        return took

    took, best = asyncio.run(main()), ideal(256, 40, 0)
    print(f"256 tasks of anthropic: {took:.2f} s, ideal {best:.2f} s")
    assert is_in_time(took, best)
    hub.client.flush()
    stats = hub.client.stats()
    assert (api.stats()["ok"], api.stats()["rate_limited"], stats.denied) == (316, 0, 0)
    assert stats.granted == 316
