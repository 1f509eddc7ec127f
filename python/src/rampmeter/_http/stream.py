"""One kept-alive connection of an event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias, cast

from .message import NotHttp, Reader, Response

Settled: TypeAlias = Callable[["Response | None"], None]
"""Takes the answer to a settle; nothing if the connection has ended without one."""


class Stream(asyncio.Protocol):
    """Answers come in the order of what was sent: to a waiting future, or to a settle's taker."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._pending: deque[asyncio.Future[Response] | Settled] = deque()
        self._transport: asyncio.Transport | None = None
        self.is_fresh = True
        self.is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while self._pending and (response := self._reader.next()) is not None:
                self._take(response)
            if not self._pending and not self._reader.is_empty:
                self.close()
        except NotHttp as error:
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionResetError("the connection was closed"))

    def ask(self, data: bytes, answer: asyncio.Future[Response] | Settled) -> None:
        """Sends `data`; its response goes to `answer`."""
        self._pending.append(answer)
        if self._transport is not None:
            self._transport.write(data)

    @property
    def owes(self) -> bool:
        """Whether an answer is to come."""
        return bool(self._pending)

    def close(self) -> None:
        """Closes the connection; what has no answer has ended."""
        self._end(ConnectionResetError("the connection was closed here"))

    def _take(self, response: Response) -> None:
        self.is_fresh = False
        answer = self._pending.popleft()
        if not isinstance(answer, asyncio.Future):
            answer(response)
        elif not answer.done():
            answer.set_result(response)
        if not response.keeps:
            self.close()

    def _end(self, error: Exception) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()
        while self._pending:
            answer = self._pending.popleft()
            if not isinstance(answer, asyncio.Future):
                answer(None)
            elif not answer.done():
                answer.set_exception(error)
                # A caller that has given up does not read it, and asyncio would complain.
                answer.exception()
