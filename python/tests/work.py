"""What child processes of tests do: a module of its own, so that they can import it."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import rampmeter


def call(hub: rampmeter.Resource, url: str) -> int:
    """One call with its permit. Its status."""
    with hub.permit() as permit:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                permit.settle(answer)
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                permit.settle(error)
                return error.code


def call_here(hub: rampmeter.Resource, url: str) -> tuple[int, int]:
    """The same, and the process that made it."""
    return call(hub, url), os.getpid()


def calls(hub: rampmeter.Resource, url: str, threads: int, count: int) -> None:
    """So many calls in threads; the process fails if one of them does."""
    with ThreadPoolExecutor(threads) as pool:
        statuses = list(pool.map(lambda _: call(hub, url), range(count)))
    if statuses != [200] * count:
        print(statuses, file=sys.stderr)
        os._exit(1)


def hold(hub: rampmeter.Resource, ready: int) -> None:
    """Takes a permit, says so, and never ends by itself."""
    permit = hub.permit().acquire()
    os.write(ready, b"x")
    sys.stdin.read()
    permit.settle()


def slow_call(hub: rampmeter.Resource, seconds: float) -> None:
    """Holds a permit for a while."""
    import time

    with hub.permit():
        time.sleep(seconds)
