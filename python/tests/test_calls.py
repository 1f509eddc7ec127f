"""One call with its permit, in threads."""

from __future__ import annotations

import gc
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import rampmeter
from conftest import Starts
from limits import PLENTY, limit, resource, shared
from rampmeter import NotInTime, Outcome, Refused
from rampmeter._core.ask import Grant
from rampmeter._core.leases import Leases
from servers import Scheduler, Upstream, until


def hub_of(scheduler: Scheduler, **options: object) -> rampmeter.Resource:
    return rampmeter.connect(scheduler.url).resource("api", **options)  # type: ignore[arg-type]


def settled(scheduler: Scheduler, count: int) -> None:
    until(f"{count} settled", lambda: scheduler.metric("rampmeter_settled_total") == count or None)


def test_a_permit_is_settled_with_the_answer(scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    running, api = scheduler(PLENTY), upstream("requests=5/1s", "tokens=100/1s")
    hub = hub_of(running)
    with hub.permit({"requests": 1, "tokens": 3}, max_wait=5) as permit:
        with urllib.request.urlopen(f"{api.url}/process?tokens=3") as answer:
            permit.settle(answer)
        assert permit.is_settled and not permit.is_local and permit.waited < 1
    settled(running, 1)
    assert api.stats()["ok"] == 1


def test_a_block_settles_as_used_and_can_give_back(scheduler: Starts) -> None:
    running = scheduler(resource(limit("few", 2, "1h")))
    hub = hub_of(running)
    with hub.permit():
        pass
    with pytest.raises(ZeroDivisionError), hub.permit() as permit:
        raise ZeroDivisionError
    assert permit.is_settled
    with pytest.raises(NotInTime), hub.try_permit():
        raise AssertionError("two of two were used")
    running2 = scheduler(resource(limit("few", 1, "1h"), name="other"))
    other = rampmeter.connect(running2.url).resource("other")
    for _ in range(3):
        with other.try_permit() as permit:
            permit.give_back()
    # A permit whose start was missed is given back, too.
    assert other.client.stats().granted == 3 <= other.client.stats().returned


def test_a_forgotten_permit_counts_as_used(scheduler: Starts) -> None:
    running = scheduler(resource(limit("few", 1, "1h")))
    hub = hub_of(running)
    hub.permit().acquire()
    gc.collect()
    hub.client.flush()
    settled(running, 1)
    with pytest.raises(NotInTime), hub.try_permit():
        pass


def test_run_repeats_after_a_429(scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    """The configuration allows far more than the upstream does: its 429s are repeated."""
    running = scheduler(resource(limit("wrong", 100, "1s"), more='dialect = "ietf"'))
    api, hub = upstream("requests=3/1s", more=("--dialect", "ietf")), hub_of(running)

    def call() -> Outcome:
        try:
            with urllib.request.urlopen(f"{api.url}/process") as answer:
                return Outcome(answer.status, answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Outcome(error.code, error.headers)

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(lambda _: hub.run(1, call, max_wait=60), range(6)))
    assert [outcome.status for outcome in outcomes] == [200] * 6
    assert api.stats()["ok"] == 6 and hub.client.stats().throttled == api.stats()["rate_limited"] > 0


def test_run_repeats_an_error_with_a_429_and_passes_others_on(scheduler: Starts) -> None:
    running = scheduler(PLENTY)
    hub = hub_of(running)
    answers = iter([429, 404])

    class HTTPError(Exception):
        def __init__(self, response: Outcome) -> None:
            self.response = response

    def call() -> None:
        raise HTTPError(Outcome(next(answers)))

    with pytest.raises(HTTPError) as raised:
        hub.run(1, call)
    assert raised.value.response.status == 404
    hub.client.flush()
    stats = hub.client.stats()
    assert (stats.granted, stats.throttled) == (2, 1)
    # A settle whose answer is late is sent again, and counts again.
    assert stats.settled >= 2


def test_limited_takes_the_cost_from_the_arguments(scheduler: Starts) -> None:
    running = scheduler(resource(limit("tokens", 10, "1h", unit="tokens")))
    hub = hub_of(running)

    @hub.limited(cost=lambda prompt: {"tokens": len(prompt)}, max_wait=0)
    def ask(prompt: str) -> str:
        """Asks."""
        return prompt.upper()

    assert ask("seven..") == "SEVEN.." and ask.__doc__ == "Asks."
    with pytest.raises(NotInTime):
        ask("four")


def test_nobody_starts_before_the_turn(scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    few, allowed = shared(20, 4)
    running, api = scheduler(resource(few)), upstream(allowed)
    hub = hub_of(running)

    def call(_: int) -> int:
        with hub.permit() as permit, urllib.request.urlopen(f"{api.url}/process") as answer:
            permit.settle(answer)
            return int(answer.status)

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(call, range(32))) == {200}
    assert api.stats()["rate_limited"] == 0
    hub.client.flush()
    assert hub.client.stats().settled - hub.client.stats().returned == hub.client.stats().granted


def test_a_wait_has_an_end(scheduler: Starts) -> None:
    running = scheduler(resource(limit("few", 1, "1h")))
    hub = hub_of(running)
    with hub.permit():
        began = time.monotonic()
        with pytest.raises(NotInTime) as refused, hub.permit(max_wait=0.2):
            pass
    assert refused.value.limited_by == "few" and (refused.value.retry_after or 0) > 60
    assert time.monotonic() - began < 2 and issubclass(NotInTime, TimeoutError)


def test_classes_labels_and_what_is_left(scheduler: Starts) -> None:
    running = scheduler(
        resource(
            limit("each", 3, "1h", more='key = ["client"]'), more='classes = [{name = "interactive"}, {name = "bulk"}]'
        )
    )
    hub = hub_of(running, class_="bulk", labels={"client": "a"})
    with hub.permit(left=True) as permit:
        assert [left["remaining"] for left in permit.left] == [2.0]
    with hub.permit(labels={"client": "b"}, class_="interactive", left=True) as permit:
        assert [left["remaining"] for left in permit.left] == [2.0]
    with pytest.raises(Refused, match="unknown_class"), hub.permit(class_="none"):
        pass


def test_a_reservation_is_made_ready(scheduler: Starts) -> None:
    running = scheduler(resource(limit("few", 1, "500ms"), more='validity = "300ms"'))
    hub = hub_of(running)
    hub.permit().acquire().settle()
    first, second = hub.reserve().acquire(), hub.reserve().acquire()
    assert 0.2 < first.delay() < 0.6 < second.delay() < 1.1
    first.ready()
    assert first.delay() == 0
    first.settle(200)
    # The second permit lapses before its call, so `ready` replaces it.
    until("it has lapsed", lambda: second.valid_for() == 0 or None)
    was = second.id
    second.ready()
    assert second.id != was and second.valid_for() > 0
    second.settle(200)
    hub.client.flush()
    assert hub.client.stats().returned == 1


def test_a_long_call_keeps_its_place(scheduler: Starts) -> None:
    """One call at a time; a lease of 300 ms, which the client renews from a thread of its own."""
    one = '[[resource.limit]]\nname = "one"\nalgorithm = "concurrency"\ncapacity = 1\ntime_to_live = "300ms"\n'
    running = scheduler(f'[[resource]]\nname = "api"\n{one}')
    hub, other = hub_of(running), hub_of(running)
    with hub.permit():
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            with pytest.raises(NotInTime), other.try_permit():
                pass
    hub.client.flush()
    with other.permit(max_wait=5):
        pass
    assert hub.client.stats().unrenewed == 0
    until("the renewer ends", lambda: None if "rampmeter-renewer" in names() else True)


def test_a_renewal_names_the_account_of_the_call() -> None:
    leases, asked = Leases(), {"cost": {"requests": 1}, "labels": {"route": "a"}}
    leases.begin("api", asked, Grant("id", 0, 0, 0, None, 3, None, (), account="team-b"))
    [(_, renewal)] = leases.take_due(1)
    assert renewal["asked"] == {**asked, "labels": {"route": "a", "account": "team-b"}}
    assert leases.end("id", 2) == {"asked": renewal["asked"]}


def test_a_call_is_made_in_the_first_way_that_starts_in_time(scheduler: Starts) -> None:
    large = limit("large", 1, "1h", more='match = { model = "large" }')
    small = limit("small", 10, "1h", more='match = { model = "small" }')
    hub = hub_of(scheduler(resource(large, small)), labels={"model": "large"})
    ways: list[rampmeter.Way] = [{"labels": {"model": "small"}, "cost": 2}]
    for way, cost in ((0, {"requests": 1}), (1, {"requests": 2})):
        with hub.permit(worth=5, or_=ways, max_wait=60) as permit:
            assert (permit.way, permit.cost) == (way, cost)
    hub.client.flush()
    with hub.permit(labels={"model": "small"}, left=True) as permit:
        assert int(permit.left[0]["remaining"]) == 7


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def test_an_interrupted_wait_costs_nothing(scheduler: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    running = scheduler(resource(limit("few", 1, "5s")))
    hub = hub_of(running)
    hub.permit().acquire().settle()
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        hub.permit().acquire()
    with hub.permit(max_wait=9):
        pass
