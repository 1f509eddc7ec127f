"""A rate-limited API of the tests, in this process: it counts its calls, and answers as its paths say."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

PARTS, PART = 6, 0.05
"""A slow body comes in so many parts, with so many seconds before each."""

CHAT = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
}


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_: object) -> None:
        """Clients may leave at any time."""


class Api:
    """What was called.

    A path may hold words: `throttled` is answered 429 for ever, `spent` has no money, `long` says to
    come back in an hour, `slow` has a body that takes its time. All others are answered 200.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.connections = 0
        self.most_at_once = 0
        self._at_once: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.server = Quiet(("127.0.0.1", 0), _handler_of(self))
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def calls(self) -> int:
        return len(self.paths)

    @contextmanager
    def call(self, path: str) -> Iterator[None]:
        with self._lock:
            self.paths.append(path)
            self._at_once["all"] += 1
            self.most_at_once = max(self.most_at_once, self._at_once["all"])
        try:
            yield
        finally:
            with self._lock:
                self._at_once["all"] -= 1


def _handler_of(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            api.connections += 1

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            path = urlsplit(self.path).path  # A client of a proxy names the whole address.
            with api.call(path):
                self.respond(path, body)

        do_GET = do_POST  # noqa: N815

        def respond(self, path: str, body: bytes) -> None:
            code = "insufficient_quota" if "spent" in path else "rate_limit_exceeded"
            if "throttled" in path or "spent" in path:
                after = {"retry-after": "3600"} if "long" in path else {"retry-after-ms": "20"}
                return self.answer(429, {"error": {"message": "too much", "code": code, "type": code}}, **after)
            if "slow" in path:
                return self.trickle()
            if path.endswith("/chat/completions"):
                return self.events() if json.loads(body).get("stream") else self.answer(200, CHAT)
            return self.answer(200, {"ok": True})

        def answer(self, status: int, body: dict[str, Any], **headers: str) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", "content-length": str(len(text))}.items():
                self.send_header(name, value)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def chunks(self, kind: str, parts: list[bytes], pause: float) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for part in parts:
                time.sleep(pause)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")

        def trickle(self) -> None:
            self.chunks("text/plain", [b"x" * 1000] * PARTS, PART)

        def events(self) -> None:
            frame = {"id": "c", "created": 1, "model": "m", "object": "chat.completion.chunk"}
            choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
            event = f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n".encode()
            self.chunks("text/event-stream", [event] * 20 + [b"data: [DONE]\n\n"], 0.01)

    return Handler


@contextmanager
def serving() -> Iterator[Api]:
    """Serves it."""
    api = Api()
    thread = threading.Thread(target=api.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.server.shutdown()
        api.server.server_close()
        thread.join(5)
