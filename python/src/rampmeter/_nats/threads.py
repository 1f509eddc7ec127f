"""Asks and settles over NATS, for threads: they share an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from .._core.answer import Answer
from .._core.ask import Failure, Reply
from .._core.contact import Contact
from ..counters import Counters
from .address import NatsAddress
from .link import Link

R = TypeVar("R")


class Slot:
    """What one thread waits for. A `concurrent.futures.Future` takes three locks for the same."""

    def __init__(self) -> None:
        self._came: SimpleQueue[Reply | Failure | BaseException] = SimpleQueue()
        self._is_done = False

    def done(self) -> bool:
        """Whether it was set. It is set once, by the loop's thread."""
        return self._is_done

    def set_result(self, result: Reply | Failure | BaseException) -> None:
        """Wakes up the thread, with an error too."""
        self._is_done = True
        self._came.put(result)

    def result(self) -> Reply | Failure:
        """Waits for it."""
        if isinstance(came := self._came.get(), BaseException):
            raise came
        return came


class LinkOfThreads:
    """A link whose loop runs in a daemon thread, from the first request to `close`."""

    def __init__(self, address: NatsAddress, contact: Callable[[str], Contact], counters: Counters) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Reply | Failure]] = set()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="rampmeter-nats", daemon=True)
        self._thread.start()
        self._link = self._wait(_made(address, contact, counters))
        self.unsent: deque[tuple[str, dict[str, Any]]] = self._link.unsent

    async def ask(self, resource: str, message: Mapping[str, Any], until: float) -> Reply | Failure:
        """Does what `Link.ask` does."""
        answer = Slot()
        self._loop.call_soon_threadsafe(self._begin, resource, message, until, answer)
        try:
            return answer.result()
        except BaseException:
            self._loop.call_soon_threadsafe(self._link.forget, message["id"])
            raise

    def _begin(self, resource: str, message: Mapping[str, Any], until: float, answer: Slot) -> None:
        """On the loop's thread. Most requests need no task there."""
        try:
            if not self._link.begin(resource, message, until, answer):
                asking = self._loop.create_task(self._link.ask(resource, message, until))
                self._tasks.add(asking)
                asking.add_done_callback(lambda done: self._tell(done, answer))
        except Exception as error:
            answer.set_result(error)

    def _tell(self, done: asyncio.Task[Reply | Failure], answer: Slot) -> None:
        self._tasks.discard(done)
        if answer.done():
            return
        if done.cancelled():
            answer.set_result(Failure("the client was closed"))
        else:
            answer.set_result(done.exception() or done.result())

    async def settle(self, resource: str, settles: Sequence[Mapping[str, Any]]) -> list[Answer] | Failure:
        """Does what `Link.settle` does."""
        return self._wait(self._link.settle(resource, settles))

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Does what `Link.tell` does."""
        self._loop.call_soon_threadsafe(self._link.tell, resource, settle)

    async def flush(self, within: float) -> None:
        """Does what `Link.flush` does."""
        if self._thread.is_alive():
            self._wait(self._link.flush(within))

    async def close(self) -> None:
        """Ends the connection and the thread. In a forked child, forgets them."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_end(self._link), self._loop)
            self._thread.join(2.0)

    def __del__(self) -> None:
        if getattr(self, "_link", None) is not None and self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_end(self._link), self._loop)

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


async def _made(address: NatsAddress, contact: Callable[[str], Contact], counters: Counters) -> Link:
    return Link(address, contact, counters)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


async def _end(link: Link) -> None:
    await link.flush(1.0)
    await link.close()
    asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
