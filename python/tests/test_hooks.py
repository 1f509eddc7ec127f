"""What a program learns while it waits: hooks, `timeout`, and several addresses."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import threading
import time

import pytest

import rampmeter
from conftest import Starts
from limits import PLENTY, limit, resource
from rampmeter import InvalidArgument, NotInTime, NotRampmeter, Outcome, Permit
from servers import Nats


def test_hooks_tell_of_waits_and_429s(scheduler: Starts, nats: Nats) -> None:
    running = scheduler(resource(limit("few", 1, "2s")))
    waits: list[tuple[str | None, float]] = []
    rejected: list[tuple[Permit, Outcome]] = []

    def hub_of(url: str) -> rampmeter.Resource:
        return rampmeter.connect(url).resource(
            "api",
            on_wait=lambda permit: waits.append((permit.limited_by, permit.waited)),
            on_429=lambda permit, outcome: rejected.append((permit, outcome)),
        )

    async def main() -> None:
        hub = hub_of(nats.url).with_options(max_wait=60)
        while not waits:
            await asyncio.gather(*(hub.arun(1, lambda: asyncio.sleep(0, 200)) for _ in range(2)))

    hub = hub_of(running.url)
    while not waits:  # A machine that stands still has its call ready at any time.
        assert hub.run(1, lambda: 200) == 200
    assert {limit for limit, _ in waits} == {"few"} and waits[0][1] > 0
    waits.clear()
    asyncio.run(main())
    assert {limit for limit, _ in waits} == {"few"} and rejected == []
    answers = iter([429, 200])
    assert hub.run(1, lambda: Outcome(next(answers), {"retry-after": "1"})).status == 200
    [(permit, outcome)] = rejected
    assert permit.is_settled and outcome.headers["retry-after"] == "1"


def fail(*_: object) -> None:
    raise ZeroDivisionError


def test_a_hook_that_fails_costs_no_call(caplog: pytest.LogCaptureFixture) -> None:
    hub = rampmeter.connect("http://127.0.0.1:1").resource("api", on_wait=fail, on_429=fail)
    hub = pickle.loads(pickle.dumps(hub))  # noqa: S301
    with rampmeter.testing.limits({"api": "1/s"}) as t:
        assert [hub.run(1, iter([status]).__next__, repeats=0) for status in (200, 200, 429)] == [200, 200, 429]
        assert [granted.waited for granted in t.permits] == [0, 1, 1]
        hub.reserve().acquire().give_back()  # It has not waited yet.
    failures = [record.message for record in caplog.records if record.exc_info]
    assert failures == ["a hook has failed"] * 3 and "ZeroDivisionError" in caplog.text
    with pytest.raises(TypeError, match="on_waits"):
        hub.with_options(on_waits=fail)  # type: ignore[call-arg, unused-ignore]


def test_timeout_is_max_wait(scheduler: Starts) -> None:
    hub = rampmeter.connect(scheduler(resource(limit("few", 1, "1h"))).url).resource("api")
    hub.permit().acquire().settle()
    for ask in (
        lambda: hub.permit(timeout=0.1).acquire(),
        lambda: hub.reserve(timeout=0.1).acquire(),
        lambda: hub.run(1, lambda: 200, timeout=0.1),
        lambda: asyncio.run(hub.arun(1, lambda: asyncio.sleep(0), timeout=0.1)),
        hub.limited(timeout=0.1)(lambda: 200),
    ):
        began = time.monotonic()
        with pytest.raises(NotInTime):
            ask()
        assert time.monotonic() - began < 20
    for wrong in (lambda: hub.permit(timeout=1, max_wait=1), lambda: hub.run(1, lambda: 200, timeout=1, max_wait=1)):
        with pytest.raises(InvalidArgument, match="give one of them"):
            wrong()
    assert hub.client.stats().granted == 1


def test_another_scheduler_is_asked_when_one_fails(scheduler: Starts, caplog: pytest.LogCaptureFixture) -> None:
    """The first address is of nobody, and the scheduler of the second dies under the callers."""
    first, second = scheduler(PLENTY), scheduler(PLENTY)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
    client = rampmeter.connect([nobody, first.url, second.url])
    assert client.url == f"{nobody},{first.url},{second.url}"
    assert rampmeter.connect(client.url)._addresses == pickle.loads(pickle.dumps(client))._addresses  # noqa: S301
    hub = client.resource("api")
    with caplog.at_level(logging.WARNING, "rampmeter"), hub.permit() as permit:
        permit.settle(200)
    assert caplog.records == []

    def often_here() -> None:
        for _ in range(40):
            with hub.permit() as permit:
                permit.settle(200)
            time.sleep(0.05)

    async def main() -> None:
        async def often() -> None:
            for _ in range(40):
                async with hub.permit() as permit:
                    permit.settle(200)
                await asyncio.sleep(0.05)

        await asyncio.gather(*(often() for _ in range(4)))

    threads = [threading.Thread(target=often_here) for _ in range(4)]
    for thread in threads:
        thread.start()
    killing = threading.Timer(0.5, first.kill)
    killing.start()
    asyncio.run(main())
    for thread in threads:
        thread.join()
    killing.join()
    client.flush()
    stats = client.stats()
    assert (stats.granted, stats.denied) == (321, 0)
    second.kill()
    with pytest.raises(NotInTime, match="refused"):
        hub.permit(max_wait=0.5).acquire()


def test_one_wrong_address_of_several_is_passed_over(scheduler: Starts) -> None:
    running = scheduler(PLENTY)
    wrong = "http://no-such-host.invalid:9480"
    with rampmeter.connect([wrong, running.url]) as client, client.resource("api").permit(max_wait=30) as permit:
        assert not permit.is_local
    with pytest.raises(NotRampmeter):
        rampmeter.connect(wrong).resource("api").permit().acquire()
    with pytest.raises(InvalidArgument, match="http://HOST:PORT"):
        rampmeter.connect([running.url, "127.0.0.1"])
