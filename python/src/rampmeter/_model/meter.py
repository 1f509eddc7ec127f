"""Reads the usage from an answer as it passes by."""

from __future__ import annotations

import json
import zlib
from typing import Final

MAX_KEPT: Final = 4 * 1024 * 1024
"""Bytes of one answer, or of one event, that are looked at for its usage."""


class Meter:
    """The usage of one answer, whether its body is JSON or a stream of events.

    Example:
        >>> meter = Meter(7, 100, "")
        >>> meter.feed(b'data: {"choices":[{"delta":{"content":"a"}}]}')
        >>> meter.feed(b'\\n\\ndata: {"choices":[{"delta":{"content":"b"}}]}\\n\\n')
        >>> meter.used(is_whole=False)
        (7, 2)
        >>> meter.feed(b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\\n\\n')
        >>> meter.used(is_whole=True)
        (5, 2)
    """

    def __init__(self, read: float, most: float, encoding: str) -> None:
        self._read, self._most = read, most
        self._told: dict[str, float] = {}
        self._deltas = 0
        self._rest = b""
        self._unpacked = zlib.decompressobj(47).decompress if encoding in ("gzip", "deflate") else bytes

    def feed(self, data: bytes) -> None:
        """A part of the body. What can't be read is passed over."""
        try:
            self._rest += self._unpacked(data)
        except zlib.error:
            return
        if self._rest[:1] not in (b"{", b""):
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    self._take(line[5:])
        self._rest = self._rest[:MAX_KEPT]

    def used(self, is_whole: bool) -> tuple[float, float]:
        """The tokens of input and of output; of a stream that was broken off, as far as it came."""
        self._take(self._rest.removeprefix(b"data:"))
        self._rest = b""
        output = self._told.get("output")
        if output is None or (not is_whole and self._deltas > output):
            output = self._deltas if self._deltas or not is_whole else self._most
        return self._told.get("input", self._read), output

    def _take(self, text: bytes) -> None:
        try:
            event = json.loads(text)
        except ValueError:
            return
        if not isinstance(event, dict):
            return
        self._deltas += "delta" in event or any("delta" in choice for choice in event.get("choices") or [{}])
        for place in (event, event.get("response"), event.get("message")):
            usage = place.get("usage") if isinstance(place, dict) else None
            for name, told in (usage or {}).items():
                if name in ("prompt_tokens", "input_tokens") and isinstance(told, int):
                    self._told["input"] = told
                elif name in ("completion_tokens", "output_tokens") and isinstance(told, int):
                    self._told["output"] = told
