"""One kept-alive connection of threads."""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import Final

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
    """A socket, with the settles whose answers are not read yet."""

    def __init__(self, address: Address, within: float = CONNECT) -> None:
        raw = socket.create_connection((address.host, address.port), max(0.001, min(CONNECT, within)))
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE:
                if hasattr(socket, name):
                    raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            context = address.tls
            self._socket = context.wrap_socket(raw, server_hostname=address.host) if context else raw
        except BaseException:
            raw.close()
            raise
        self._timeout: float | None = -1.0
        self._reader = Reader()
        self.owed: deque[tuple[str, bytes]] = deque()
        self.is_fresh = True

    def send(self, data: bytes) -> None:
        """Sends all of `data`; it is small, and two seconds are enough."""
        self._set_timeout(CONNECT)
        self._socket.sendall(data)

    def read(self, until: float) -> Response:
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
            self._set_timeout(None if left == float("inf") else left)
            data = self._socket.recv(65_536)
            if not data:
                raise Hangup("the connection was closed")
            self._reader.feed(data)
        self.is_fresh = False
        return response

    def close(self) -> None:
        """Closes this process's end."""
        self._socket.close()

    def _set_timeout(self, timeout: float | None) -> None:
        if timeout != self._timeout:
            self._socket.settimeout(timeout)
            self._timeout = timeout
