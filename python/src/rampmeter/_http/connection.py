"""One kept-alive connection, for threads or for tasks."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from typing import Any, Final, cast

from .address import Address
from .message import Reader, Response

CONNECT: Final = 2.0
"""Seconds until a connection is made: a longer wait shows that no host is there."""

KEEPALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A host that has lost its power is noticed after twenty seconds."""


class Hangup(ConnectionError):
    """The other end has closed."""


class NotConnected(OSError):
    """There was no connection, so that nothing was sent. Its cause says why."""


class Connection:
    """A connection to `address`, with the settles whose answers are not read yet."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._reader = Reader()
        self.owed: deque[tuple[str, dict[str, Any]]] = deque()
        self.is_fresh = self.keeps = True
        """Whether nothing was read yet, and whether the other end takes another request."""

    async def send(self, data: bytes) -> None:
        """Sends all of `data`."""
        raise NotImplementedError

    async def read(self, until: float) -> Response:
        """The next response.

        Raises:
            TimeoutError: If it does not come before `until`. Reading may go on.
            OSError: If the connection has ended.
            NotHttp: If something else came.
        """
        while (response := self._reader.next()) is None:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("no answer in time")
            await self._receive(None if left == float("inf") else left)
        self.is_fresh, self.keeps = False, response.keeps
        return response

    def close(self) -> None:
        """Closes this process's end."""
        raise NotImplementedError

    async def _receive(self, within: float | None) -> None:
        """Waits for more bytes."""
        raise NotImplementedError


class Socket(Connection):
    """A connection of threads: its coroutines block."""

    def __init__(self, address: Address, within: float) -> None:
        super().__init__(address)
        raw = socket.create_connection((address.host, address.port), max(0.001, min(CONNECT, within)))
        try:
            keep_alive(raw)
            context = address.tls
            self._socket = context.wrap_socket(raw, server_hostname=address.host) if context else raw
        except BaseException:
            raw.close()
            raise
        self._timeout: float | None = -1.0

    async def send(self, data: bytes) -> None:
        # It is small, and two seconds are enough.
        self._set_timeout(CONNECT)
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()

    async def _receive(self, within: float | None) -> None:
        self._set_timeout(within)
        data = self._socket.recv(65_536)
        if not data:
            raise Hangup("the connection was closed")
        self._reader.feed(data)

    def _set_timeout(self, timeout: float | None) -> None:
        if timeout != self._timeout:
            self._socket.settimeout(timeout)
            self._timeout = timeout


class Stream(asyncio.Protocol, Connection):
    """A connection of one event loop."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._news: asyncio.Future[None] | None = None
        """What a reader waits for."""
        self._lost: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = exc or Hangup("the connection was closed")
        self._wake()

    async def send(self, data: bytes) -> None:
        if self._lost is not None:
            raise self._lost
        self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    async def _receive(self, within: float | None) -> None:
        if self._lost is not None:
            raise self._lost
        self._news = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._news], timeout=within)

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


async def connect_socket(address: Address, within: float) -> Connection:
    """A connection for a thread."""
    try:
        return Socket(address, within)
    except OSError as error:
        raise NotConnected from error


async def connect_stream(address: Address, within: float) -> Connection:
    """A connection for tasks of the running event loop."""
    loop = asyncio.get_running_loop()
    connecting = loop.create_connection(lambda: Stream(address), address.host, address.port, ssl=address.tls)
    try:
        _, stream = await asyncio.wait_for(connecting, max(0.001, min(CONNECT, within)))
    except (OSError, asyncio.TimeoutError) as error:
        raise NotConnected from error
    return stream


def keep_alive(raw: socket.socket) -> None:
    """Has small messages sent at once, and a host noticed that is gone."""
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
