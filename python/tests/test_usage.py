"""Programs that are written in other ways: they work, or are told what to write."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import json
import logging
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import rampmeter
from conftest import Starts
from limits import PLENTY, count, limit, resource
from rampmeter import InvalidArgument, NotInTime, Outcome, Refused, Unreachable
from servers import Nats, until


def test_a_call_that_cost_nothing_is_settled_at_nothing(scheduler: Starts) -> None:
    running = scheduler(resource(limit("requests", 100, "1s"), count("tokens")))
    hub = rampmeter.connect(running.url).resource("api")
    for cost in (0, {"requests": 0, "tokens": 0}):
        with hub.permit({"requests": 1, "tokens": 500 if cost else 0}) as permit:
            permit.settle(200, cost=cost)  # type: ignore[arg-type]
    with hub.permit({"tokens": 300}) as permit:
        permit.settle(Outcome(200, cost={"tokens": 7}), cost={"tokens": 0})
    hub.client.flush()
    until("all are settled", lambda: running.metric("rampmeter_settled_total") == 3 or None)
    assert running.levels()["count"] == pytest.approx(10_000, abs=0.5)


def test_a_number_of_zero_settles_requests(scheduler: Starts) -> None:
    running = scheduler(resource(limit("requests", 10, "8760h", more="learn = false"), more='start = "full"'))
    hub = rampmeter.connect(running.url).resource("api")
    for _ in range(3):
        with hub.permit() as permit:
            permit.settle(200, cost=0)
    hub.client.flush()
    until("all are settled", lambda: running.metric("rampmeter_settled_total") == 3 or None)
    assert running.levels()["requests"] == pytest.approx(10, abs=0.1)


def test_limited_decorates_every_kind_of_function(scheduler: Starts) -> None:
    hub = rampmeter.connect(scheduler(PLENTY).url).resource("api", max_wait=5)

    @hub.limited
    def bare(number: int) -> int:
        """Doubles."""
        return 2 * number

    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    class Doubling:
        async def __call__(self, number: int) -> int:
            return await double(number)

        @hub.limited()
        def method(self, number: int) -> int:
            return 2 * number

    assert (bare(3), bare.__doc__, Doubling().method(3)) == (6, "Doubles.", 6)
    for function in (double, functools.partial(double), Doubling()):
        assert asyncio.run(hub.limited(function)(3)) == 6  # type: ignore[operator]
    assert hub.client.stats().granted == 5


def test_work_that_begins_after_its_call_is_refused(scheduler: Starts) -> None:
    hub = rampmeter.connect(scheduler(PLENTY).url).resource("api", max_wait=5)

    def numbers() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    async def coroutine() -> int:
        return 1

    for function in (numbers, later):
        with pytest.raises(InvalidArgument, match=r"`with hub\.permit"):
            hub.limited(function)
        with pytest.raises(InvalidArgument, match=r"`with hub\.permit"):
            hub.run(1, function)
    with pytest.raises(InvalidArgument, match=r"await hub\.arun"):
        hub.run(1, coroutine)
    with pytest.raises(InvalidArgument, match="cost="):
        hub.limited(2)  # type: ignore[call-overload]
    for wrong in (-1, 1.5):
        with pytest.raises(InvalidArgument, match="repeats is a count"):
            hub.run(1, lambda: 200, repeats=wrong)  # type: ignore[arg-type]
    assert hub.client.stats().granted == hub.client.stats().returned
    for adapter in (rampmeter.requests.PermitAdapter, rampmeter.aiohttp.Permits):
        with pytest.raises((InvalidArgument, TypeError), match="max_weight"):
            adapter(hub, max_weight=5)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "error",
    [
        Refused("never_fits", "at most 5", None, "few"),
        NotInTime("not_in_time", "the earliest start is in 3 s", 3.0, "few"),
        Unreachable("no scheduler answers", 2.5),
        InvalidArgument("an amount is a number"),
        rampmeter.Closed("this client was closed"),
    ],
)
def test_errors_survive_pickle_and_json(error: rampmeter.RampmeterError) -> None:
    for copy in (pickle.loads(pickle.dumps(error)), type(error)(*json.loads(json.dumps(error.args)))):  # noqa: S301
        assert copy == error and str(copy) == str(error) and type(copy) is type(error) and hash(copy) == hash(error)
        assert getattr(copy, "retry_after", None) == getattr(error, "retry_after", None)
    assert error != type(error)(*("other" if isinstance(arg, str) else arg for arg in error.args))


GREENLETS = """
import gevent.monkey
gevent.monkey.patch_all()
import gevent, sys, rampmeter
hub = rampmeter.connect(sys.argv[1]).resource("api", max_wait=20)
def call(_):
    with hub.permit() as permit:
        permit.settle(200)
    return 1
print(sum(greenlet.get() for greenlet in [gevent.spawn(call, number) for number in range(50)]))
"""


def test_greenlets_ask_over_http_and_not_over_nats(scheduler: Starts, nats: Nats) -> None:
    def run(url: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", GREENLETS, url]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert run(scheduler(PLENTY).url).stdout == "50\n"
    refused = run(nats.url)
    assert refused.returncode == 1 and "gevent and eventlet patch threads" in refused.stderr


def test_a_cancelled_wait_is_silent(scheduler: Starts) -> None:
    hub = rampmeter.connect(scheduler(resource(limit("few", 1, "1h"))).url).resource("api")
    said: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        async with hub.permit():
            pass
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(hub.permit().aacquire(), 0.1)
        gc.collect()
        await asyncio.sleep(0.1)

    asyncio.run(main())
    gc.collect()
    assert said == []


ADAPTERS = ("aiohttp", "anthropic", "httpx", "openai", "requests", "sentinelhub")


def test_adapters_are_there_by_their_names() -> None:
    program = f"import rampmeter, sys; print(len(set({ADAPTERS}) & sys.modules.keys()))"
    for name in ADAPTERS:
        program += f"; print(rampmeter.{name}.__doc__.split()[0])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ended.stdout.split() == ["0", *["Permits"] * len(ADAPTERS)], ended.stderr
    with pytest.raises(AttributeError, match="no attribute 'urllib3'"):
        _ = rampmeter.urllib3  # type: ignore[attr-defined]


def test_the_address_is_that_of_the_environment(scheduler: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAMPMETER_URL", raising=False)
    with pytest.raises(InvalidArgument, match="http://HOST:PORT"):
        rampmeter.connect()
    monkeypatch.setenv("RAMPMETER_URL", scheduler(PLENTY).url)
    with rampmeter.connect() as client, client.resource("api").permit() as permit:
        permit.settle(200)
    for wrong in (["http://127.0.0.1:1", 5], [], 5):
        with pytest.raises(InvalidArgument, match="an address is a text"):
            rampmeter.connect(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="an amount is a number, not True"):
        rampmeter.connect().resource("api").permit(True)


def test_a_thread_s_permit_in_a_coroutine_is_warned_of_once(
    scheduler: Starts, caplog: pytest.LogCaptureFixture
) -> None:
    hub = rampmeter.connect(scheduler(PLENTY).url).resource("api")

    async def main() -> None:
        for _ in range(3):
            with hub.permit() as permit:
                permit.settle(200)

    with caplog.at_level(logging.DEBUG, "rampmeter"):
        asyncio.run(main())
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    waits = [record.message for record in caplog.records if record.levelno == logging.DEBUG]
    assert len(warnings) == 1 and "async with" in warnings[0]
    assert len(waits) == 3 and "resource 'api': a permit after 0.0" in waits[0]


def test_trio_is_told_that_tasks_are_of_asyncio() -> None:
    hub = rampmeter.connect("http://127.0.0.1:9480").resource("api")
    waiting = hub.permit().aacquire()
    with pytest.raises(InvalidArgument, match="tasks need asyncio"):
        waiting.send(None)


def test_people_are_told_of_429s_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    hub = rampmeter.connect("http://127.0.0.1:1").resource("api")
    with rampmeter.testing.limits(), caplog.at_level(logging.WARNING, "rampmeter"):
        assert hub.run(1, lambda: 429, repeats=20) == 429
    assert [record.levelname for record in caplog.records] == ["WARNING"] and "answered 429" in caplog.text
    assert hub.client.stats().throttled == 0, "the block had counters of its own"


def documented() -> Iterator[tuple[str, Any]]:
    """What an editor explains to users."""
    modules = [rampmeter, *(getattr(rampmeter, name) for name in (*ADAPTERS, "testing", "errors", "policy"))]
    for module in modules:
        for name, item in vars(module).items():
            if name.startswith("_") or str(getattr(item, "__module__", "rampmeter")).partition(".")[0] != "rampmeter":
                continue
            if inspect.isclass(item) or inspect.isfunction(item):
                yield name, item
            for member, value in vars(item).items() if inspect.isclass(item) else ():
                if inspect.isfunction(value) and not member.startswith("_"):
                    yield f"{name}.{member}", value


def test_docstrings_explain_by_themselves() -> None:
    """An editor shows one at a time, so that none says that it is the same as another."""
    found = dict(documented())
    assert {"Resource.arun", "Permit.aready", "Asking.aacquire", "async_http_client", "with_permits"} <= found.keys()
    for name, item in found.items():
        text = inspect.getdoc(item) or ""
        assert not text.startswith("The same for"), name
    assert "docs/protocol.md" in (rampmeter.Refused.__doc__ or "")
    for adapter in (rampmeter.httpx.Transport, rampmeter.requests.PermitAdapter, rampmeter.aiohttp.Permits):
        assert "Args:" in (adapter.__doc__ or "")
