"""Drives the asks of one event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from .._core.ask import Grant
from . import clock
from .process import Process
from .side import LAST_WORDS, Side
from .transport import Transport


class Loop(Side):
    """Asks and settles for tasks. Belongs to one event loop, and ends with it."""

    def __init__(self, process: Process, transport: Transport) -> None:
        super().__init__(process, transport)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._renewer: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._end: AsyncGenerator[None, None] | None = None

    async def acquire(self, resource: str, fields: Mapping[str, Any], age: float, max_wait: float | None) -> Grant:
        if self._end is None:
            self._end = self._until_shutdown()
            await anext(self._end)
        return await super().acquire(resource, fields, age, max_wait)

    async def pause(self, seconds: float) -> None:
        await clock.asleep(seconds)

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
        await self._transport.close()

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
                await self._renew_due()
        finally:
            self._renewer = None
