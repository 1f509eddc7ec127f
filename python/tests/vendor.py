"""A server that speaks as OpenAI, Anthropic and Sentinel Hub do, on an account of `rampmeter upstream`.

It decides what a call costs by formulas of its own, and lets the upstream decide whether it may
run. Run as `vendor.py UPSTREAM_URL`; it prints its own address.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import struct
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

PASSED_ON = ("retry-after", "x-processingunits-spent")
FREE = ("/files", "/batches", "/count_tokens", "/speech", "/moderations")
STEP = 0.002
"""Seconds from one event of a stream to the next."""
SLOW = 0.1
"""Seconds that a slow body takes: that of a model, a path or a script with the word `slow`."""


def png() -> bytes:
    """A picture of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def answered(body: dict[str, Any]) -> int:
    """How long the answer of the model is."""
    most = body.get("max_tokens") or body.get("max_completion_tokens") or 64
    return min(most, 10 + zlib.crc32(json.dumps(body["messages"]).encode()) % 40)


def read(body: dict[str, Any]) -> int:
    """How many tokens the model reads, beside those that it caches."""
    tools = len(json.dumps(body["tools"])) // 5 if "tools" in body else 0
    return tools + sum(len(str(message["content"])) // 4 + 3 for message in body["messages"])


ROUNDS = 2
"""How often an agent is told to use its tools before its answer."""


def tool_calls(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools that the model wants to be used, if the request forces it to, or is that of an agent."""
    rounds = sum(message["role"] == "tool" for message in body["messages"])
    wants = isinstance(body.get("tool_choice"), dict) or "agent" in body["model"]
    if not body.get("tools") or not wants or rounds >= ROUNDS:
        return []
    function = body["tools"][0]["function"]
    samples = {"string": "word", "integer": 7, "number": 7.5, "boolean": True}
    fields = function["parameters"]["properties"]
    arguments = json.dumps({name: samples[field["type"]] for name, field in fields.items()})
    called = {"name": function["name"], "arguments": arguments}
    return [{"id": f"call-{rounds}", "type": "function", "function": called}]


class Cache:
    """The beginnings of prompts that were read before."""

    known: set[str] = set()  # noqa: RUF012
    lock = threading.Lock()

    @classmethod
    def usage(cls, body: dict[str, Any]) -> dict[str, int]:
        """The tokens that a request writes into the cache, or reads from it."""
        parts = body.get("system", "")
        text = "".join(part["text"] for part in parts if "cache_control" in part) if isinstance(parts, list) else ""
        with cls.lock:
            is_known = text in cls.known
            cls.known.add(text)
        tokens = len(text) // 4
        written, found = (0, tokens) if is_known else (tokens, 0)
        return {"cache_creation_input_tokens": written, "cache_read_input_tokens": found}


def processing_units(body: dict[str, Any], path: str) -> float:
    """The area, and for statistics three days of it."""
    size = body["output"] if path.endswith("process") else body["aggregation"]
    return round(size["width"] * size["height"] / 262_144 * (1 if path.endswith("process") else 3), 3)


class Flights:
    """The calls that are being answered."""

    now = most = 0
    lock = threading.Lock()

    @classmethod
    def add(cls, count: int) -> None:
        with cls.lock:
            cls.now += count
            cls.most = max(cls.most, cls.now)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    local = threading.local()
    is_in_flight = False

    def log_message(self, *_: object) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        finally:
            self.landed()

    def landed(self) -> None:
        """The last bytes of the answer follow."""
        Flights.add(-int(self.is_in_flight))
        self.is_in_flight = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.endswith("/token"):
            return self.answer(200, {"access_token": "token", "expires_in": 3600, "token_type": "Bearer"})
        if self.path.endswith(FREE):
            return self.answer(200, {"id": "i", "object": "o", "input_tokens": 7}) if self.charge() else None
        asked = json.loads(body)
        if self.path.endswith("/embeddings"):
            if self.charge(tokens=sum(map(len, asked["input"]))):
                usage = {"prompt_tokens": sum(map(len, asked["input"])), "total_tokens": sum(map(len, asked["input"]))}
                data = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
                self.answer(200, {"object": "list", "model": asked["model"], "data": data, "usage": usage})
        elif self.path.endswith("/chat/completions"):
            if self.charge(tokens=read(asked) + answered(asked)):
                self.chat(asked)
        elif self.path.endswith("/messages"):
            cached = Cache.usage(asked)
            counted = read(asked) + cached["cache_creation_input_tokens"]
            if self.charge(**{"input-tokens": counted, "output-tokens": answered(asked)}):
                self.messages(asked, cached)
        elif code := re.search(r"403 (\w+)", asked.get("evalscript", "")):
            self.answer(403, {"error": {"status": 403, "reason": "Forbidden", "code": code[1]}})
        elif self.charge(**{"processing-units": processing_units(asked, self.path)}):
            if self.path.endswith("process"):
                self.write(200, "image/png", png(), "slow" in asked["evalscript"])
            else:
                self.answer(200, {"data": [], "status": "OK"})

    def do_GET(self) -> None:
        if self.path == "/most":
            return self.answer(200, {"in_flight": Flights.most})
        return self.answer(200, {"object": "list", "data": []}, "slow" in self.path) if self.charge() else None

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.charge():
            self.write(204, "application/json", b"")

    def charge(self, **cost: float) -> bool:
        """Asks the upstream; a refusal is passed on."""
        self.is_in_flight = True
        Flights.add(1)
        if not hasattr(self.local, "upstream"):
            self.local.upstream = http.client.HTTPConnection(urlsplit(sys.argv[1]).netloc)
        headers = {f"x-cost-{unit}": f"{amount:g}" for unit, amount in cost.items()}
        self.local.upstream.request("POST", "/process", headers=headers)
        with self.local.upstream.getresponse() as response:
            text = response.read()
            self.told = [
                (name, value)
                for name, value in response.getheaders()
                if name.lower() in PASSED_ON or "ratelimit" in name.lower()
            ]
        if response.status != 200:
            self.write(response.status, "application/json", text)
        return response.status == 200

    def chat(self, asked: dict[str, Any]) -> None:
        count, frame = answered(asked), {"id": "c", "created": 1, "model": asked["model"]}
        usage = {"prompt_tokens": read(asked), "completion_tokens": count, "total_tokens": read(asked) + count}
        if not asked.get("stream"):
            message: dict[str, Any] = {"role": "assistant", "content": "word " * count}
            if calls := tool_calls(asked):
                message["tool_calls"] = calls
            choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}
            slow = {"padding": "A" * 5_000_000} if asked["model"] == "large" else {}
            whole = {**frame, **slow, "object": "chat.completion", "choices": [choice], "usage": usage}
            return self.answer(200, whole, "slow" in asked["model"])
        events: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]} for _ in range(count)
        ]
        events.append({"choices": [], "usage": usage})
        self.stream([("", {**frame, "object": "chat.completion.chunk", **event}) for event in events], "[DONE]")
        return None

    def messages(self, asked: dict[str, Any], cached: dict[str, int]) -> None:
        count = answered(asked)
        frame = {"id": "m", "type": "message", "role": "assistant", "model": asked["model"], "stop_sequence": None}
        usage = {"input_tokens": read(asked), "output_tokens": count, **cached}
        if not asked.get("stream"):
            content = [{"type": "text", "text": "word " * count}]
            whole = {**frame, "content": content, "stop_reason": "end_turn", "usage": usage}
            return self.answer(200, whole, "slow" in asked["model"])
        start = {**frame, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}
        events: list[tuple[str, dict[str, Any]]] = [("message_start", {"type": "message_start", "message": start})]
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        events += [("content_block_start", block)] + [("content_block_delta", delta)] * count
        events += [("content_block_stop", {"type": "content_block_stop", "index": 0})]
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": count}}
        events += [("message_delta", end), ("message_stop", {"type": "message_stop"})]
        self.stream(events, None)
        return None

    def stream(self, events: list[tuple[str, dict[str, Any]]], last: str | None) -> None:
        self.head(200, "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        texts = [f"event: {name}\n" * bool(name) + f"data: {json.dumps(event)}\n\n" for name, event in events]
        texts += [f"data: {last}\n\n"] if last else []
        for number, text in enumerate(texts, 1):
            if number == len(texts):
                self.landed()  # Packages leave at the last event.
            self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())
            time.sleep(STEP)
        self.wfile.write(b"0\r\n\r\n")

    def answer(self, status: int, body: dict[str, Any], is_slow: bool = False) -> None:
        self.write(status, "application/json", json.dumps(body).encode(), is_slow)

    def write(self, status: int, kind: str, body: bytes, is_slow: bool = False) -> None:
        self.head(status, kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if is_slow:
            self.wfile.write(body[:10])
            time.sleep(SLOW)
        self.landed()
        self.wfile.write(body[10 * is_slow :])

    def head(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        for name, value in getattr(self, "told", []):
            self.send_header(name, value)


class Vendor(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_: object) -> None:
        pass

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address


if __name__ == "__main__":
    server = Vendor(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port} vends", flush=True)
    server.serve_forever()
