"""The same promises over NATS."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import nats as nats_py
import pytest

import rampmeter
import work
from conftest import Starts
from limits import PLENTY, limit, resource, shared
from rampmeter import Fail, InvalidArgument, NotInTime, Refused, SafeRate, Unreachable
from servers import Nats, Scheduler, Upstream, until
from test_restarts import kill_twice
from test_tasks import get

FEW, API = shared(20, 8)
LIMITS = resource(FEW)


def test_threads_and_forks_never_get_429(nats: Nats, scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    running, api, before = scheduler(LIMITS), upstream(API), threading.active_count()
    with rampmeter.connect(nats.url) as client:
        hub = client.resource("api")
        work.call(hub, f"{api.url}/process")
        context = multiprocessing.get_context("spawn")
        children = [context.Process(target=work.calls, args=(hub, f"{api.url}/process", 4, 10)) for _ in range(2)]
        for child in children:
            child.start()
        work.calls(hub, f"{api.url}/process", 4, 9)
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0, 0]
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (30, 0)
    assert threading.active_count() == before
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= 30 or None)


def test_a_forked_child_has_a_connection_of_its_own(nats: Nats, scheduler: Starts) -> None:
    scheduler(PLENTY)
    script = (
        "import os, rampmeter, sys, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "hub = rampmeter.connect(sys.argv[1]).resource('api')\n"
        "hub.permit().acquire().settle(200)\n"
        "children = []\n"
        "for _ in range(4):\n"
        "    if (child := os.fork()) == 0:\n"
        "        for _ in range(5): hub.permit(max_wait=10).acquire().settle(200)\n"
        "        hub.client.close()\n"
        "        os._exit(0)\n"
        "    children.append(child)\n"
        "codes = [os.waitpid(child, 0)[1] for child in children]\n"
        "hub.permit().acquire().settle(200)\n"
        "assert codes == [0] * 4, codes\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, nats.url], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_tasks_outlive_killed_servers(nats: Nats, scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    running, api = scheduler(LIMITS), upstream(API)
    client = rampmeter.connect(nats.url)
    hub = client.resource("api")

    async def call() -> None:
        async with hub.permit() as permit:
            permit.settle(await get(f"{api.url}/process"))

    async def main() -> None:
        killing = asyncio.to_thread(kill_twice, running, nats)
        await asyncio.gather(killing, *(call() for _ in range(60)))

    asyncio.run(main())
    assert (api.stats()["ok"], api.stats()["rate_limited"], client.stats().denied) == (60, 0, 0)


def test_concurrent_requests_travel_together(nats: Nats, scheduler: Starts) -> None:
    scheduler(PLENTY)
    hub = rampmeter.connect(nats.url).resource("api")

    async def main() -> list[int]:
        listener = await nats_py.connect(nats.url)
        sizes = []

        async def heard(message: nats_py.aio.msg.Msg) -> None:
            sizes.append(message.data.count(b'"id"'))

        await listener.subscribe("rampmeter.permit.api", cb=heard)
        await listener.flush()
        await asyncio.gather(*(hub.permit().aacquire() for _ in range(200)))
        await listener.flush()
        await listener.close()
        return sizes

    # An answer that comes late is asked for again, in a later message.
    assert sum(asyncio.run(main())[:4]) == 200


def test_a_freeze_voids_a_start(nats: Nats, scheduler: Starts) -> None:
    """One request waits for its start when another one's 429 freezes the limit: it asks anew."""
    few = limit("few", 1, "1s")
    running = scheduler(resource(few, more='dialect = "ietf"\nhorizon = "3s"'))
    hub = rampmeter.connect(nats.url).resource("api")

    async def main() -> float:
        first = await hub.permit().aacquire()
        began = time.monotonic()
        second = asyncio.create_task(hub.permit().aacquire())
        await asyncio.sleep(0.3)
        first.settle(rampmeter.Outcome(429, {"retry-after": "2"}))
        (await second).settle(200)
        return time.monotonic() - began

    assert asyncio.run(main()) >= 2.2
    assert running.metric("rampmeter_upstream_429_total") == 1


def test_refusals_cancels_and_policies(nats: Nats, scheduler: Starts) -> None:
    running = scheduler(resource(limit("few", 1, "2s")))
    hub = rampmeter.connect(nats.url).resource("api", unreachable=Fail(after=0.3))
    safe = rampmeter.connect(nats.url).resource("api", unreachable=SafeRate(10, per=1, after=0.3))

    async def main() -> None:
        with pytest.raises(Refused, match="unknown_unit"):
            await hub.permit({"tokens": 1}).aacquire()
        (await hub.permit().aacquire()).settle()
        with pytest.raises(NotInTime):
            await hub.try_permit().aacquire()
        waiting = [asyncio.create_task(hub.permit().aacquire()) for _ in range(5)]
        await asyncio.sleep(0.2)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        began = time.monotonic()
        (await safe.permit(max_wait=5).aacquire()).settle()
        assert time.monotonic() - began < 2.5
        running.kill()
        with pytest.raises(Unreachable):
            await hub.permit().aacquire()
        assert (await safe.permit().aacquire()).is_local

    asyncio.run(main())


def test_a_long_call_keeps_its_place(nats: Nats, scheduler: Starts) -> None:
    one = '[[resource.limit]]\nname = "one"\nalgorithm = "concurrency"\ncapacity = 1\ntime_to_live = "300ms"\n'
    scheduler(f'[[resource]]\nname = "api"\n{one}')
    with rampmeter.connect(nats.url) as client:
        hub = client.resource("api")
        with hub.permit():
            end = time.monotonic() + 1
            while time.monotonic() < end:
                with pytest.raises(NotInTime), hub.try_permit():
                    pass
        with hub.permit(max_wait=5):
            pass
        assert client.stats().unrenewed == 0


def test_a_denied_inbox_is_told_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    users = """authorization { users = [
        { user: scheduler, password: s }
        { user: worker, password: w, permissions: { publish: "rampmeter.>",
          subscribe: ["_INBOX_worker.>", "rampmeter.event.>"] } }
    ] }"""
    server = Nats(tmp_path, users)
    running = None
    try:
        (tmp_path / "scheduler").mkdir()
        running = Scheduler(tmp_path / "scheduler", server, resource(limit("few", 5, "1h")), user="scheduler:s@")
        url = server.url.replace("nats://", "nats://worker:w@")
        remedy = "(?i)_INBOX.*name the inboxes of this user: nats_options=.*RAMPMETER_INBOX_PREFIX"
        with rampmeter.connect(url) as client, pytest.raises(Unreachable, match=remedy):
            client.resource("api", unreachable=Fail(after=0.3)).permit().acquire()
        assert any("permissions violation for subscription" in line for line in caplog.messages)
        with rampmeter.connect(url, nats_options={"inbox_prefix": "_INBOX_worker"}) as client:
            client.resource("api").permit(max_wait=5).acquire().settle()
        monkeypatch.setenv("RAMPMETER_INBOX_PREFIX", "_INBOX_worker")
        with rampmeter.connect(url) as client:
            client.resource("api").permit(max_wait=5).acquire().settle()
    finally:
        if running is not None:
            running.stop()
        server.stop()


def test_addresses_of_nats() -> None:
    client = rampmeter.connect("nats://me:secret@127.0.0.1:4222,tls://other")
    assert "secret" not in repr(client) and "nats://127.0.0.1:4222,tls://other:4222" in repr(client)
    for url in ("nats://", "nats://host:99999", "nats://host,http://host"):
        with pytest.raises(InvalidArgument, match="nats://HOST:PORT"):
            rampmeter.connect(url)


PRICED = resource(
    limit("requests", 100_000, "1h"),
    limit("units", 100_000, "1h", unit="processing-units"),
    more='start = "full"\npricing = "sentinel-hub"',
)
SCRIPT = "function setup() { return { input: ['B04', 'B08'], output: { bands: 1, sampleType: 'FLOAT32' } } }"
BODY = {
    "input": {"data": [{"type": "sentinel-2-l2a"}]},
    "output": {"width": 512, "height": 512, "responses": [{"format": {"type": "image/tiff"}}]},
    "evalscript": SCRIPT,
}


def test_more_bodies_at_once_than_a_message_may_have(scheduler: Starts, nats: Nats) -> None:
    scheduler(PRICED)
    hub = rampmeter.connect(nats.url).resource("api")
    price = {"kind": "sentinel-hub", "api": "process", "body": BODY}

    async def cost(is_priced: bool) -> float:
        async with hub.permit(price=price if is_priced else None) as permit:
            return permit.cost.get("processing-units", 0.0)

    async def main() -> list[float]:
        costs = await asyncio.gather(*(cost(number % 4 > 0) for number in range(40)))
        await hub.client.aclose()
        return costs

    assert sorted(asyncio.run(main())) == [0.0] * 10 + [1.333334] * 30


def test_patience_ends_while_a_scheduler_hangs(scheduler: Starts, nats: Nats) -> None:
    running = scheduler(PLENTY)
    hub = rampmeter.connect(nats.url, unreachable=Fail(after=0.5)).resource("api")
    hub.permit().acquire().settle()
    running.signal(signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(Unreachable):
        hub.permit().acquire()
    running.signal(signal.SIGCONT)
    assert 0.4 < time.monotonic() - began < 6
    hub.client.close()
