"""`rampmeter.testing`: unit tests of programs, without a server and without a wait."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rampmeter
import rampmeter.testing
from rampmeter import InvalidArgument, NotInTime, Outcome, Refused, Unreachable
from servers import ROOT

API = rampmeter.connect("http://127.0.0.1:1", unreachable=rampmeter.Fail(after=0.2)).resource("api")
"""As programs have it: made at import, before any test."""


def test_programs_wait_in_no_time() -> None:
    began = time.monotonic()
    with rampmeter.testing.limits({"api": "10/h"}) as t:
        for _ in range(25):
            with API.permit() as permit:
                permit.settle(200)
        assert [granted.waited for granted in t.permits] == pytest.approx([0.0] * 10 + [360.0] * 15)
        assert t.now() == pytest.approx(15 * 360)
        t.advance(3600)
        assert API.permit().acquire().waited == 0
    assert time.monotonic() - began < 5 and {granted.status for granted in t.permits} == {200, None}
    with pytest.raises(Unreachable):
        API.permit().acquire()


def test_tasks_and_threads_share_the_limits() -> None:
    async def main() -> None:
        async with API.permit({"requests": 1, "tokens": 30}, labels={"a": "b"}, class_="bulk") as permit:
            permit.settle(200, cost={"tokens": 10})
        await asyncio.gather(*(API.arun(1, lambda: asyncio.sleep(0)) for _ in range(3)))

    with rampmeter.testing.limits({"api": {"requests": "5/s", "tokens": "100/m"}}) as t:
        asyncio.run(main())
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda _: API.run(1, lambda: 200), range(4))) == [200] * 4
        assert len(t.permits) == 8 == API.client.stats().granted == API.client.stats().settled
        first = t.permits[0]
        assert (first.cost, first.labels, first.class_) == ({"requests": 1, "tokens": 10}, {"a": "b"}, "bulk")
        # What was settled lower is there again.
        with API.try_permit({"tokens": 90}) as permit:
            permit.give_back()
        assert t.permits[-1].cost == {"tokens": 0.0}


def test_a_request_excludes_accounts_and_its_permit_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    httpx: Any = pytest.importorskip("httpx")
    hub = API.with_options(not_accounts=["team-a"])
    below = httpx.MockTransport(lambda request: httpx.Response(200))
    client = rampmeter.httpx.with_permits(httpx.Client(transport=below), hub, not_accounts={"team-b"})
    with rampmeter.testing.limits() as t:
        grant = t._ask
        monkeypatch.setattr(t, "_ask", lambda *asked: {**grant(*asked), "account": "team-c"})
        with hub.permit(not_accounts=("team-b",)) as permit:
            assert permit.account == "team-c"
        assert hub.run(1, lambda: 200) == 200
        assert client.get("http://api.example").status_code == 200
        both = ["team-a", "team-b"]
        assert [granted.not_accounts for granted in t.permits] == [both, ["team-a"], both]


def test_refusals_are_those_of_a_scheduler() -> None:
    with rampmeter.testing.limits({"api": "2/m"}):
        for _ in range(2):
            API.permit().acquire().settle()
        with pytest.raises(NotInTime) as late:
            API.permit(max_wait=5).acquire()
        assert late.value.retry_after == pytest.approx(25)
        with pytest.raises(NotInTime):
            API.try_permit().acquire()
        with pytest.raises(Refused, match="never_fits"):
            API.permit(3).acquire()
        with pytest.raises(Refused, match=r"unknown_resource: .*'other'"):
            API.client.resource("other").permit().acquire()
    for wrong in ("ten", "0/s", "10/0s", "10/y"):
        with pytest.raises(InvalidArgument, match="a rate is such as"), rampmeter.testing.limits({"api": wrong}):
            pass


def test_a_429_pauses_and_is_repeated() -> None:
    answers = iter([Outcome(429, {"retry-after": "7"}), Outcome(429), Outcome(200)])
    with rampmeter.testing.limits({"api": "100/s"}) as t:
        assert API.run(1, lambda: next(answers)).status == 200
    assert [granted.status for granted in t.permits] == [429, 429, 200] and t.now() == pytest.approx(8)


def test_without_rates_every_permit_is_immediate() -> None:
    httpx: Any = pytest.importorskip("httpx")
    calls: list[Any] = []

    def answer(request: Any) -> Any:
        calls.append(request)
        return httpx.Response(200, text="ok")

    with rampmeter.testing.limits() as t:
        other = rampmeter.connect("nats://127.0.0.1:1").resource("any")
        client = rampmeter.httpx.with_permits(httpx.Client(transport=httpx.MockTransport(answer)), other, cost=1000)
        assert [client.get("http://api.example").text for _ in range(50)] == ["ok"] * 50
        reserved = other.reserve(5).acquire()
        reserved.ready()
        assert reserved.delay() == 0
    assert len(calls) == 50 and len(t.permits) == 51 and t.now() == 0


def test_the_test_of_the_documents_passes() -> None:
    shown = (ROOT / "docs" / "python.md").read_text().split("## Test your program")[1].split("```python\n")[1]
    names: dict[str, Any] = {}
    exec(shown.split("```")[0], names)  # noqa: S102
    names["test_the_program_waits_for_its_turn"]()
