"""A connection to the schedulers."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ._drive.loop import Loop
from ._drive.process import LOG, Process
from ._drive.threads import Threads
from ._drive.transport import Transport
from ._http.address import Address
from ._http.pool import PoolOfTasks, PoolOfThreads
from ._nats.address import NatsAddress
from .counters import Stats
from .errors import Closed, InvalidArgument
from .policy import Fail, Policy, SafeRate, checked_policy
from .resource import Defaults, Resource

if TYPE_CHECKING:
    from typing_extensions import Unpack

CLIENTS: weakref.WeakSet[Client] = weakref.WeakSet()
"""All clients of this process, for its forks and for its end."""

Parts: TypeAlias = (
    "tuple[dict[int, Threads], dict[int, Process], weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Loop]]"
)
"""What a client has in this process."""

Urls: TypeAlias = "str | Sequence[str]"
"""The address of a scheduler, or of several."""

stand_in: Callable[[Process], Transport] | None = None
"""Makes the transport of `rampmeter.testing`, in its blocks."""


class Client:
    """Asks the schedulers at one address. Made by `rampmeter.connect`.

    Threads, tasks, forked children and pickles may share it. Nothing is sent before the first
    request. A pickle holds the token, so treat it as one. A representation shows no token.
    """

    def __init__(self, url: Urls, options: Mapping[str, Any]) -> None:
        self._url = url
        self._options = dict(options)
        self._addresses = _addresses(url, options)
        self._policy = checked_policy(options.get("unreachable", "wait"))
        self._policies: dict[str, Fail | SafeRate | None] = {}
        self._processes: dict[int, Process] = {}
        self._sides: dict[int, Threads] = {}
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Loop] = weakref.WeakKeyDictionary()
        self._is_closed = False
        self._has_warned = False
        CLIENTS.add(self)

    def resource(self, name: str, *, unreachable: Policy | None = None, **defaults: Unpack[Defaults]) -> Resource:
        """An account of an API, with defaults for its requests.

        Args:
            name: As the schedulers' configuration names it.
            unreachable: What happens while no scheduler of it answers; see `rampmeter.connect`. One
                client has one policy for the resource, whichever object asks.
            defaults: `class_`, `labels`, `not_accounts`, `max_wait`, `on_wait` and `on_429` of its
                requests, as `Resource` explains them.

        Raises:
            InvalidArgument: If an argument is invalid, or this client has another policy for it.
        """
        if unreachable is not None:
            self._take_policy(name, checked_policy(unreachable))
        return Resource(self, name).with_options(**defaults)

    @property
    def url(self) -> str:
        """The address of the schedulers, without credentials; of several, with commas between them."""
        addresses = self._addresses
        return addresses.url if isinstance(addresses, NatsAddress) else ",".join(each.url for each in addresses)

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
        """Settles what tasks of the running event loop have left unsettled, and ends its connections.

        The end of the loop does so, too.
        """
        if (loop := self._loops.pop(asyncio.get_running_loop(), None)) is not None:
            await loop.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *error: object) -> None:
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
            process = self._processes.setdefault(pid, Process(self._policies, self._policy))
        return process

    def _threads(self) -> Threads:
        """What drives the asks of this process's threads."""
        if not self._has_warned and asyncio._get_running_loop() is not None:
            self._has_warned = True
            LOG.warning("a permit of a thread is asked for in a coroutine, whose event loop stops; write `async with`")
        threads = self._sides.get(os.getpid())
        if threads is None:
            self._check_open()
            process = self._here()
            threads = self._sides.setdefault(process.pid, Threads(process, self._transport(process, is_of_tasks=False)))
            _register_end()
        return threads

    def _loop(self) -> Loop:
        """What drives the asks of the running event loop."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            raise InvalidArgument(
                "tasks need asyncio, and no event loop of it runs here; in trio, ask in a thread: "
                "trio.to_thread.run_sync"
            ) from None
        loop = self._loops.get(running)
        if loop is None or loop.process.pid != os.getpid():
            self._check_open()
            process = self._here()
            loop = self._loops[running] = Loop(process, self._transport(process, is_of_tasks=True))
        return loop

    def _transport(self, process: Process, is_of_tasks: bool) -> Transport:
        if stand_in is not None:
            return stand_in(process)
        if isinstance(self._addresses, NatsAddress):
            from ._nats.link import Link
            from ._nats.threads import LinkOfThreads

            _check_threads()
            links: Any = Link if is_of_tasks else LinkOfThreads
            return cast(Transport, links(self._addresses, process.contact, process.counters))
        return (PoolOfTasks if is_of_tasks else PoolOfThreads)(self._addresses, process.settled)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("this client was closed; rampmeter.connect makes another one")

    def _exchange(self, parts: Parts | None = None) -> Parts:
        """Puts other parts in place, or none, and returns those before."""
        before = self._sides, self._processes, self._loops
        self._sides, self._processes, self._loops = parts or ({}, {}, weakref.WeakKeyDictionary())
        return before

    def _forked(self) -> None:
        """This process is a child: what it has inherited belongs to its parent."""
        inherited, _, _ = self._exchange()
        for threads in inherited.values():
            threads.abandon()

    def _at_exit(self) -> None:
        if (threads := self._sides.get(os.getpid())) is not None:
            threads.close()

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._url, self._options, self._policies)

    def __dask_tokenize__(self) -> tuple[str, str]:
        """What Dask names tasks by. It shows no token."""
        return type(self).__qualname__, self.url

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"


def _check_threads() -> None:
    """Greenlets share one thread, and no event loop runs beside them."""
    if not isinstance(threading.get_ident, BuiltinFunctionType):
        raise InvalidArgument("gevent and eventlet patch threads, which NATS needs: connect to http://HOST:PORT")


def _addresses(url: Urls, options: Mapping[str, Any]) -> tuple[Address, ...] | NatsAddress:
    urls = url.split(",") if isinstance(url, str) else url
    if not isinstance(urls, list | tuple) or not urls or not all(isinstance(each, str) for each in urls):
        raise InvalidArgument(f"an address is a text, or a list of texts, not {url!r}")
    token, ca_file = options.get("token"), options.get("ca_file")
    if not NatsAddress.is_meant(urls[0]):
        return tuple(dict.fromkeys(Address.parse(each.strip(), token, ca_file) for each in urls))
    _check_threads()
    if find_spec("nats") is None:
        raise InvalidArgument("NATS needs the package nats-py: pip install 'rampmeter[nats]'")
    return NatsAddress.parse(
        urls, token, ca_file, options.get("nats_options") or {}, options.get("prefix", "rampmeter")
    )


def _restored(url: Urls, options: Mapping[str, Any], policies: dict[str, Fail | SafeRate | None]) -> Client:
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
