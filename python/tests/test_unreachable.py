"""What requests do while no scheduler answers."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

import rampmeter
from conftest import Starts
from limits import PLENTY
from rampmeter import Fail, InvalidArgument, NotInTime, RampmeterError, SafeRate, Unreachable
from servers import Nats


def test_requests_fail_after_a_silence(scheduler: Starts) -> None:
    running = scheduler(PLENTY)
    hub = rampmeter.connect(running.url, unreachable=Fail(after=0.3)).resource("api")
    hub.permit().acquire().settle()
    running.kill()
    began = time.monotonic()
    with pytest.raises(Unreachable, match="rampmeter serve") as failed:
        hub.permit().acquire()
    assert 0.25 < time.monotonic() - began < 3 and failed.value.retry_after > 0
    assert running.url in str(failed.value) and "Connection refused" in str(failed.value)
    assert isinstance(failed.value, ConnectionError)

    async def main() -> float:
        began = time.monotonic()
        with pytest.raises(Unreachable):
            await hub.permit().aacquire()
        return time.monotonic() - began

    # The silence is known.
    assert asyncio.run(main()) < 0.2
    running.restart()
    # A request that finds the scheduler again is answered at once.
    time.sleep(0.3)
    hub.permit().acquire().settle()
    assert hub.client.stats().denied == 2


def test_a_deadline_without_a_scheduler_names_what_is_missing(scheduler: Starts) -> None:
    running = scheduler(PLENTY)
    hub = rampmeter.connect(running.url).resource("api", max_wait=0.3)
    running.kill()
    with pytest.raises(NotInTime, match=r"no scheduler answers: .*Connection refused"):
        hub.permit().acquire()
    hub.client.close()


def test_requests_go_on_at_a_safe_rate(scheduler: Starts) -> None:
    running = scheduler(PLENTY)
    hub = rampmeter.connect(running.url).resource("api", unreachable=SafeRate(10, per=1, after=0.2))
    with hub.permit() as permit:
        assert not permit.is_local
    running.kill()
    starts = []
    for _ in range(6):
        with hub.permit() as permit:
            starts.append(time.monotonic())
            assert permit.is_local and permit.id == ""
    # A busy machine may wake the first call late; the others follow their own times.
    late = 0.05
    waits = [start - starts[0] for start in starts]
    assert all(wait >= number * 0.1 - late for number, wait in enumerate(waits)), waits
    with pytest.raises(Unreachable):
        hub.try_permit().acquire()
    running.restart()
    end = time.monotonic() + 10
    while hub.permit().acquire().is_local:
        assert time.monotonic() < end
    assert hub.client.stats().local >= 6


def test_a_second_policy_for_a_resource_is_refused(scheduler: Starts) -> None:
    url = scheduler(PLENTY).url
    client = rampmeter.connect(url)
    strict = client.resource("api", unreachable="fail")
    for same in ("fail", Fail(after=2)):
        client.resource("api", unreachable=same)  # type: ignore[arg-type]
    for other in ("wait", Fail(after=5), SafeRate(1)):
        with pytest.raises(InvalidArgument, match=r"another policy for resource 'api'.*rampmeter\.connect"):
            client.resource("api", unreachable=other)  # type: ignore[arg-type]
    with strict.permit():
        pass
    usual = rampmeter.connect(url)
    with usual.resource("api").permit():
        pass
    with pytest.raises(InvalidArgument, match="another policy"):
        usual.resource("api", unreachable="fail")
    usual.resource("another", unreachable="fail")


@pytest.mark.parametrize("policy", ["never", SafeRate, 3])
def test_a_policy_that_is_none_is_refused(policy: object) -> None:
    with pytest.raises(InvalidArgument, match="'wait', 'fail' or a SafeRate"):
        rampmeter.connect("http://127.0.0.1:9480", unreachable=policy)  # type: ignore[arg-type]


def test_the_wrong_kind_of_server_and_a_name_that_nobody_serves_are_told(
    scheduler: Starts, nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    """Over NATS nobody can refuse a name: the log tells of it, and who waits no longer."""
    running = scheduler(PLENTY)
    mistaken = rampmeter.connect(running.url.replace("http://", "nats://"))
    with mistaken, pytest.raises(RampmeterError, match=r"no NATS server.*write http://"):
        mistaken.resource("api").permit(max_wait=8).acquire()
    client = rampmeter.connect(nats.url)
    with caplog.at_level(logging.WARNING, "rampmeter"), client, pytest.raises(NotInTime) as late:
        client.resource("apo").permit(max_wait=3).acquire()
    told = "no scheduler of this resource is there"
    assert told in str(late.value) and told in caplog.text and "'apo'" in caplog.text
