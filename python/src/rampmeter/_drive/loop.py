"""Drives the asks of one event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from .._core.ask import Failure, Grant, Pause, Send
from ..errors import RampmeterError
from .process import Process
from .side import Side
from .threads import LAST_WORDS
from .transport import AsyncTransport


class Loop(Side):
    """Asks and settles for tasks. Belongs to one event loop, and ends with it."""

    def __init__(self, process: Process, transport: AsyncTransport) -> None:
        super().__init__(process, transport.unsent)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._renewer: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._end: AsyncGenerator[None, None] | None = None

    async def acquire(self, resource: str, fields: Mapping[str, Any], age: float, max_wait: float | None) -> Grant:
        """A grant whose start has come, unless it is a reservation."""
        if self._end is None:
            self._end = self._until_shutdown()
            await anext(self._end)
        now = time.monotonic()
        ask = self.process.ask(resource, fields, now, age, max_wait)
        steps = ask.steps(now)
        try:
            effect = next(steps)
            while True:
                event = None
                if isinstance(effect, Send):
                    event = await self._transport.ask(resource, effect.message, effect.until)
                elif isinstance(effect, Pause):
                    await asyncio.sleep(max(0.0, effect.until - time.monotonic()))
                else:
                    self.tell(resource, dict(effect.settle))
                effect = steps.send((time.monotonic(), event))
        except StopIteration as done:
            return self._granted(ask, done.value)
        except BaseException as error:
            self._denied(resource, ask, error)
            raise

    def _send(self, resource: str, settle: dict[str, Any]) -> None:
        """Any thread may call this."""
        if threading.get_ident() == self._thread:
            self._transport.tell(resource, settle)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._transport.tell, resource, settle)

    async def close(self) -> None:
        """Sends the last settles, and ends all connections."""
        if self._renewer is not None:
            self._renewer.cancel()
        await self._transport.flush(LAST_WORDS)
        await self._transport.aclose()

    async def _until_shutdown(self) -> AsyncGenerator[None, None]:
        """An event loop closes its async generators before it ends, so the client closes then."""
        try:
            yield
        finally:
            await self.close()

    def _start_renewer(self) -> None:
        self._wake.set()
        if self._renewer is None:
            self._renewer = self._loop.create_task(self._renew())

    async def _renew(self) -> None:
        """Renews leases while there are any."""
        try:
            while (due := self._leases.next_due()) is not None:
                self._wake.clear()
                try:
                    await asyncio.wait_for(self._wake.wait(), max(0.0, due - time.monotonic()))
                except asyncio.TimeoutError:
                    pass
                for resource, renewal in self._leases.take_due(time.monotonic()):
                    await self._renew_one(resource, renewal)
        finally:
            self._renewer = None

    async def _renew_one(self, resource: str, renewal: dict[str, Any]) -> None:
        try:
            answers = await self._transport.settle(resource, [renewal])
        except RampmeterError as error:
            answers = Failure(str(error))
        self._renewed(resource, renewal["id"], answers)
