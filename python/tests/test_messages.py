"""Responses of HTTP as bytes, whatever their parts."""

from __future__ import annotations

import pytest

from rampmeter._http.message import MAX_BODY, NotHttp, Reader, Response

LONG = b"x" * 3000


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", [Response(200, b"{}", True)]),
        (b"HTTP/1.1 204 No Content\r\n\r\n", [Response(204, b"", True)]),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na", [Response(200, b"a", False)]),
        (b"HTTP/1.1 503 No\r\nCONNECTION:Close\r\nContent-Length:0\r\n\r\n", [Response(503, b"", False)]),
        (b"HTTP/1.1 302 Found\r\nLocation: /a\r\n\r\n", [Response(302, b"", True, "/a")]),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", [Response(200, b"", True)]),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\nBB8\r\n" + LONG + b"\r\n0\r\n\r\n",
            [Response(200, b"ab" + LONG, True)],
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na" * 3, [Response(200, b"a", True)] * 3),
    ],
)
def test_a_response_may_come_in_any_pieces(sent: bytes, expected: list[Response]) -> None:
    for size in (1, 7, len(sent)):
        reader, found = Reader(), []
        for begin in range(0, len(sent), size):
            reader.feed(sent[begin : begin + size])
            while (response := reader.next()) is not None:
                found.append(response)
        assert found == expected and not reader._bytes


@pytest.mark.parametrize(
    "sent",
    [
        b'INFO {"server_id":"a"} \r\n',
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    ],
)
def test_what_is_no_response_is_refused(sent: bytes) -> None:
    reader = Reader()
    reader.feed(sent)
    with pytest.raises(NotHttp):
        reader.next()
