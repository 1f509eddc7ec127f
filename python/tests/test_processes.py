"""Forked, spawned and served processes share an account and nothing else."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import rampmeter
import work
from conftest import Starts
from limits import PLENTY, resource, shared
from servers import Upstream, until


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_never_get_429(method: str, scheduler: Starts, upstream: Callable[..., Upstream]) -> None:
    few, allowed = shared(20, 8)
    running, api = scheduler(resource(few)), upstream(allowed)
    hub = rampmeter.connect(running.url).resource("api")
    work.call(hub, f"{api.url}/process")
    context = multiprocessing.get_context(method)
    children = [context.Process(target=work.calls, args=(hub, f"{api.url}/process", 4, 10)) for _ in range(3)]
    for child in children:
        child.start()
    work.calls(hub, f"{api.url}/process", 4, 9)
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (40, 0)
    hub.client.flush()
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= 40 or None)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_inside_a_call_settles_nothing(scheduler: Starts) -> None:
    gc.collect()  # What other tests of the process have left holds connections.
    running = scheduler(PLENTY)
    hub = rampmeter.connect(running.url).resource("api")
    with hub.permit() as permit:
        if (child := os.fork()) == 0:
            # The child leaves the block, forgets the permit, and asks for one of its own.
            with pytest.raises(RuntimeError, match="another process"):
                permit.settle(200)
            permit._close(None)
            sockets = sockets_of(os.getpid())
            with hub.permit() as own:
                own.settle(200)
            hub.client.flush()
            os._exit(0 if sockets == 0 else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert running.metric("rampmeter_settled_total") == 1
        permit.settle(200)
    hub.client.flush()
    assert running.metric("rampmeter_settled_total") == 2 and hub.client.stats().granted == 1


def sockets_of(pid: int) -> int:
    """How many connected sockets of TCP a process has."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[9] in inodes for line in lines)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_while_threads_ask_does_not_hang(scheduler: Starts) -> None:
    """Children are forked in the middle of other threads' requests, and ask for themselves."""
    running = scheduler(PLENTY)
    hub = rampmeter.connect(running.url).resource("api")
    busy = True

    def ask() -> None:
        while busy:
            with hub.permit():
                pass

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(15):
        if (child := os.fork()) == 0:
            with hub.permit(max_wait=20) as permit:
                permit.settle(200)
            os._exit(0)
        children.append(child)
        time.sleep(0.01)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    busy = False
    for thread in threads:
        thread.join()
    assert codes == [0] * 15


def test_nothing_is_left_at_the_end_of_a_process(scheduler: Starts) -> None:
    """The last settle arrives though the process ends at once, and no thread holds it up."""
    running = scheduler(PLENTY)
    script = (
        "import rampmeter, sys, threading\n"
        "hub = rampmeter.connect(sys.argv[1]).resource('api')\n"
        "for _ in range(40): hub.permit().acquire().settle(200)\n"
        "assert threading.active_count() == 1\n"
    )
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", script, running.url]
    ended = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    until("all are settled", lambda: running.metric("rampmeter_settled_total") == 40 or None)


def test_a_killed_worker_holds_its_place_for_its_lease_only(scheduler: Starts) -> None:
    one = '[[resource.limit]]\nname = "one"\nalgorithm = "concurrency"\ncapacity = 1\ntime_to_live = "600ms"\n'
    running = scheduler(f'[[resource]]\nname = "api"\n{one}')
    hub = rampmeter.connect(running.url).resource("api")
    ours, theirs = os.pipe()
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=work.slow_call, args=(hub, 60.0))
    child.start()
    os.close(ours), os.close(theirs)

    def is_taken() -> bool | None:
        try:
            hub.try_permit().acquire().give_back()
        except rampmeter.NotInTime:
            return True
        return None

    until("the child has the place", is_taken)
    assert is_taken()
    child.kill()
    child.join()
    began = time.monotonic()
    with hub.permit(max_wait=10):
        assert time.monotonic() - began < 5


def test_a_client_is_pickled_and_a_permit_is_not(scheduler: Starts) -> None:
    running = scheduler(PLENTY)
    hub = rampmeter.connect(running.url, token="a secret of the client").resource("api", max_wait=9)  # noqa: S106
    again = pickle.loads(pickle.dumps(hub))  # noqa: S301
    assert again.name == "api" and "secret" not in repr((again, again.client, hub.client._addresses))
    with again.permit() as permit:
        assert permit.id not in repr(permit)
        with pytest.raises(TypeError, match="ask for one there"):
            pickle.dumps(permit)
