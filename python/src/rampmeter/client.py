"""A connection to the schedulers."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import weakref
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from ._drive.loop import Loop
from ._drive.process import Process
from ._drive.threads import Threads
from ._drive.transport import AsyncTransport, Transport
from ._http.address import Address
from ._http.pool import Pool
from ._http.streams import Streams
from ._nats.address import NatsAddress
from .counters import Stats
from .errors import Closed, InvalidArgument
from .policy import Fail, Policy, SafeRate, checked_policy
from .resource import Resource

CLIENTS: weakref.WeakSet[Client] = weakref.WeakSet()
"""All clients of this process, for its forks and for its end."""


class Client:
    """Asks the schedulers at one address. Made by `rampmeter.connect`.

    Threads, tasks, forked children and pickles may share it. Nothing is sent before the first
    request. A pickle holds the token, so treat it as one. A representation shows no token.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._url = url
        self._options = dict(options)
        self._address = _address(url, options)
        self._policy = checked_policy(options.get("unreachable", "wait"))
        self._policies: dict[str, Fail | SafeRate | None] = {}
        self._processes: dict[int, Process] = {}
        self._sides: dict[int, Threads] = {}
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Loop] = weakref.WeakKeyDictionary()
        self._is_closed = False
        CLIENTS.add(self)

    def resource(
        self,
        name: str,
        *,
        unreachable: Policy | None = None,
        class_: str | None = None,
        labels: Mapping[str, str] | None = None,
        max_wait: float | None = None,
    ) -> Resource:
        """An account of an API, with defaults for its requests.

        Args:
            name: As the schedulers' configuration names it.
            unreachable: What happens while no scheduler of it answers; see `rampmeter.connect`. One
                client has one policy for the resource, whichever object asks.
            class_: The priority class of its requests.
            labels: The labels of its requests.
            max_wait: The longest wait of its requests, in seconds.

        Raises:
            InvalidArgument: If an argument is invalid, or this client has another policy for it.
        """
        if unreachable is not None:
            self._take_policy(name, checked_policy(unreachable))
        return Resource(self, name).with_options(class_=class_, labels=labels, max_wait=max_wait)

    def stats(self) -> Stats:
        """What this client has counted in this process."""
        return self._here().counters.read()

    def flush(self, within: float = 2.0) -> None:
        """Sends what threads have not settled yet, for at most `within` seconds."""
        if (threads := self._sides.get(os.getpid())) is not None:
            threads.flush(within)

    def close(self) -> None:
        """Settles what is unsettled, and ends all connections of threads."""
        self._is_closed = True
        if (threads := self._sides.pop(os.getpid(), None)) is not None:
            threads.close()

    async def aclose(self) -> None:
        """The same for the running event loop. Its end does so, too."""
        if (loop := self._loops.pop(asyncio.get_running_loop(), None)) is not None:
            await loop.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _take_policy(self, name: str, policy: Fail | SafeRate | None) -> None:
        """A second policy is refused: resources that have the first would change, or miss it."""
        is_other = self._policies.get(name, policy) != policy
        if is_other or self._here().has_other_policy(name, policy):
            raise InvalidArgument(
                f"unreachable: this client has another policy for resource {name!r}; give all its users one policy, "
                "or make another client with rampmeter.connect"
            )
        self._policies[name] = policy

    def _here(self) -> Process:
        pid = os.getpid()
        process = self._processes.get(pid)
        if process is None:
            # No bound method of this client: a circle of references would close its sockets too
            # late.
            fresh = Process(partial(_policy_of, self._policies, self._policy))
            process = self._processes.setdefault(pid, fresh)
        return process

    def _threads(self) -> Threads:
        """What drives the asks of this process's threads."""
        threads = self._sides.get(os.getpid())
        if threads is None:
            self._check_open()
            process = self._here()
            threads = self._sides.setdefault(process.pid, Threads(process, self._transport(process)))
            _register_end()
        return threads

    def _loop(self) -> Loop:
        """What drives the asks of the running event loop."""
        running = asyncio.get_running_loop()
        loop = self._loops.get(running)
        if loop is None or loop.process.pid != os.getpid():
            self._check_open()
            process = self._here()
            loop = self._loops[running] = Loop(process, self._async_transport(process))
        return loop

    def _transport(self, process: Process) -> Transport:
        if isinstance(self._address, Address):
            return Pool(self._address, process.settled)
        from ._nats.threads import LinkOfThreads

        return LinkOfThreads(self._address, process.contact, process.counters)

    def _async_transport(self, process: Process) -> AsyncTransport:
        if isinstance(self._address, Address):
            return Streams(self._address, process.settled)
        from ._nats.link import Link

        return Link(self._address, process.contact, process.counters)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("this client was closed; rampmeter.connect makes another one")

    def _forked(self) -> None:
        """This process is a child: what it has inherited belongs to its parent."""
        inherited, self._sides = self._sides, {}
        self._processes = {}
        self._loops = weakref.WeakKeyDictionary()
        for threads in inherited.values():
            threads.abandon()

    def _at_exit(self) -> None:
        if (threads := self._sides.get(os.getpid())) is not None:
            threads.close()

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._url, self._options, self._policies)

    def __dask_tokenize__(self) -> tuple[str, str]:
        """What Dask names tasks by. It shows no token."""
        return type(self).__qualname__, self._address.url

    def __repr__(self) -> str:
        return f"<Client of {self._address.url}>"


def _address(url: str, options: Mapping[str, Any]) -> Address | NatsAddress:
    token, ca_file = options.get("token"), options.get("ca_file")
    if not NatsAddress.is_meant(url):
        return Address.parse(url, token, ca_file)
    if find_spec("nats") is None:
        raise InvalidArgument("NATS needs the package nats-py: pip install 'rampmeter[nats]'")
    return NatsAddress.parse(url, token, ca_file, options.get("nats_options") or {}, options.get("prefix", "rampmeter"))


def _policy_of(
    policies: dict[str, Fail | SafeRate | None], usual: Fail | SafeRate | None, resource: str
) -> Fail | SafeRate | None:
    return policies.get(resource, usual)


def _restored(url: str, options: Mapping[str, Any], policies: dict[str, Fail | SafeRate | None]) -> Client:
    client = Client(url, options)
    client._policies.update(policies)
    return client


def _forked() -> None:
    global _registered
    _registered = 0
    for client in list(CLIENTS):
        client._forked()


def _at_exit() -> None:
    for client in list(CLIENTS):
        client._at_exit()


def _register_end() -> None:
    """Has settles sent at the end of this process. Forked children of multiprocessing end so, too."""
    global _registered
    if _registered != os.getpid():
        _registered = os.getpid()
        if "multiprocessing.util" in sys.modules:
            from multiprocessing.util import Finalize

            Finalize(None, _at_exit, exitpriority=0)


_registered = 0
atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
