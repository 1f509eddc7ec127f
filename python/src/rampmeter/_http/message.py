"""Requests and responses of HTTP/1.1 as bytes, without a socket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .._drive.spans import TRACEPARENT
from .address import Address

MAX_HEAD: Final = 64 * 1024
"""Bytes of a response's head; the front's has two hundred."""

MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes of a response's body; the largest batch of answers has far less."""


class NotHttp(Exception):
    """The bytes that came are no response of HTTP/1.1."""


@dataclass(frozen=True, slots=True)
class Response:
    """One response, read to its end."""

    status: int
    body: bytes
    keeps: bool
    location: str | None = None


def post(address: Address, path: str, body: bytes, traceparent: str | None = None) -> bytes:
    """A request to the front, for a span."""
    line = f"POST {address.path}{path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n"
    line += f"{TRACEPARENT}: {traceparent}\r\n" if traceparent else ""
    return b"".join((line.encode(), address.head, b"\r\n", body))


def get(address: Address, path: str) -> bytes:
    """A request without a body."""
    return b"".join((f"GET {address.path}{path} HTTP/1.1\r\n".encode(), address.head, b"\r\n"))


class Reader:
    """Takes bytes as they come and gives responses, in order.

    Example:
        >>> reader = Reader()
        >>> reader.feed(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}HTTP/1.1 404 ")
        >>> reader.next(), reader.next()
        (Response(status=200, body=b'{}', keeps=True, location=None), None)
    """

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """More bytes have come."""
        self._bytes += data

    def next(self) -> Response | None:
        """The next response, if it is whole.

        Raises:
            NotHttp: If the bytes are no response, or are too many.
        """
        end = self._bytes.find(b"\r\n\r\n")
        if end < 0:
            begins = self._bytes[:5]
            if len(self._bytes) > MAX_HEAD or begins != b"HTTP/"[: len(begins)]:
                raise NotHttp(bytes(self._bytes[:80]).decode("latin-1"))
            return None
        head = bytes(self._bytes[:end])
        if head[:7] != b"HTTP/1." or not head[9:12].isdigit():
            raise NotHttp(head[:80].decode("latin-1"))
        status, headers = int(head[9:12]), head.lower()
        if 100 <= status < 200:
            del self._bytes[: end + 4]
            return self.next()
        taken = self._body(end + 4, headers)
        if taken is None:
            return None
        body, after = taken
        del self._bytes[:after]
        keeps = head[7:8] == b"1" and value_of(headers, b"connection") != b"close"
        location = value_of(headers, b"location") if 300 <= status < 400 else None
        return Response(status, body, keeps, location.decode("latin-1") if location else None)

    def _body(self, begin: int, headers: bytes) -> tuple[bytes, int] | None:
        """The body and where it ends, if it is whole."""
        if value_of(headers, b"transfer-encoding") == b"chunked":
            return self._chunks(begin)
        length = value_of(headers, b"content-length") or b"0"
        if not length.isdigit() or int(length) > MAX_BODY:
            raise NotHttp(f"a body of {length[:20]!r} bytes")
        end = begin + int(length)
        return (bytes(self._bytes[begin:end]), end) if len(self._bytes) >= end else None

    def _chunks(self, begin: int) -> tuple[bytes, int] | None:
        body = bytearray()
        while (line_end := self._bytes.find(b"\r\n", begin)) >= 0:
            try:
                size = int(self._bytes[begin:line_end].split(b";")[0], 16)
            except ValueError:
                raise NotHttp("a chunk without a size") from None
            if len(body) + size > MAX_BODY:
                raise NotHttp("a body without end")
            begin, end = line_end + 2, line_end + 2 + size
            if len(self._bytes) < end + 2:
                return None
            body += self._bytes[begin:end]
            begin = end + 2
            if size == 0:
                return bytes(body), begin
        return None


def value_of(headers: bytes, name: bytes) -> bytes | None:
    """The value of a header, in a head in lower case."""
    begin = headers.find(b"\r\n" + name + b":")
    if begin < 0:
        return None
    begin += len(name) + 3
    end = headers.find(b"\r\n", begin)
    return headers[begin : end if end >= 0 else len(headers)].strip()
