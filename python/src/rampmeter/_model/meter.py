"""Reads the usage from an answer as it passes by."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from .estimate import MODELS, at
from .prices import Kinds

MAX_KEPT: Final = 4 * 1024 * 1024
"""Bytes of one event that are looked at for its usage."""

MAX_USAGE: Final = 16 * 1024
"""Bytes of a usage. An answer of JSON is looked through for it however long it is."""

ENDS: Final = ("message_stop", "response.completed", "response.incomplete", "response.failed")
"""The types of events behind which a stream has nothing more."""

_USAGE: Final = re.compile(rb'(?<!\\)"usage(?:Metadata)?"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')


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
        self._told: dict[str, int] = {}
        self._deltas = 0
        """Since the last usage."""
        self._is_over = False
        """Whether the last event of a stream has come: packages close it there."""
        self._rest = b""
        self._is_json: bool | None = None
        self._unpacked = zlib.decompressobj(47).decompress if encoding in ("gzip", "deflate") else bytes

    def feed(self, data: bytes) -> None:
        """A part of the body. What can't be read is passed over."""
        try:
            self._rest += self._unpacked(data)
        except zlib.error:
            return
        if self._is_json is None and (start := self._rest.lstrip()):
            # Gateways keep a connection alive with empty lines.
            self._rest, self._is_json = start, start[:1] in (b"{", b"[")
        if self._is_json:
            end = 0
            for found in _USAGE.finditer(self._rest):
                end = found.end()
                self._take(found[1], is_usage=True)
            self._rest = self._rest[end:][-MAX_USAGE:]
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._take(line[5:])
        self._rest = self._rest[:MAX_KEPT]

    def used(self, is_whole: bool) -> tuple[float, float]:
        """The tokens of input and of output; of a stream that was broken off, as far as it came."""
        self._end()
        forms: Iterator[tuple[float | None, float | None]]
        forms = ((self._sum(form["input"]), self._sum(form["output"])) for form in MODELS["usage"]["forms"])
        read, output = next((told for told in forms if told != (None, None)), (None, None))
        if not self._is_json and (not is_whole or (output is None and self._deltas)):
            output = (output or 0) + self._deltas
        if output is None:
            output = self._most if read is None else 0
        return self._read if read is None else read, output

    def paid(self, is_whole: bool, has_output: bool) -> Kinds | None:
        """The tokens by what they cost; nothing if the answer does not tell all of them."""
        self._end()
        form = next((form for form in MODELS["usage"]["forms"] if self._sum(form["input"]) is not None), None)
        if form is None or self._deltas or not (is_whole or self._is_over):
            return None
        output = self._sum(form["output"])
        if output is None and has_output:
            return None
        names = ("cached_within", "cached_beside", "written", "written_hour")
        within, beside, written, hour = (self._sum(form.get(name, ())) or 0 for name in names)
        read = self._sum(form["input"]) or 0
        # The totals of some vendors have tokens of reasoning that their outputs lack.
        output = max(output or 0, (self._sum(form.get("total", ())) or 0) - read)
        # The fields of input include what is written.
        fresh = max(0, read - within - written)
        return Kinds(fresh, within + beside, max(0, written - hour), hour, output)

    def _end(self) -> None:
        """Reads the last line of a stream, which may lack its end."""
        if not self._is_json:
            self._take(self._rest.removeprefix(b"data:"))
            self._rest = b""

    @property
    def kept(self) -> float:
        """The tokens of the prompt that the vendor keeps now."""
        sums = (self._sum(form.get("kept", ())) for form in MODELS["usage"]["forms"])
        return next(filter(None, sums), 0)

    def _sum(self, names: Sequence[str]) -> int | None:
        told = [self._told[name] for name in names if name in self._told]
        return sum(told) if told else None

    def _take(self, text: bytes, is_usage: bool = False) -> None:
        self._is_over |= text.strip() == b"[DONE]"
        try:
            event = json.loads(text)
        except ValueError:
            return
        if not isinstance(event, dict):
            return
        if is_usage:
            # What an answer quotes comes before its own usage.
            self._told = dict(_amounts(event)) or self._told
            return
        self._is_over |= event.get("type") in ENDS
        self._deltas += "delta" in event or any("delta" in choice for choice in event.get("choices") or [{}])
        for place in MODELS["usage"]["places"]:
            if told := dict(_amounts(at(event, place))):
                self._told.update(told)
                self._deltas = 0


def _amounts(usage: Any, before: str = "") -> Iterator[tuple[str, int]]:
    """The numbers in a usage, by the path to each."""
    for name, amount in usage.items() if isinstance(usage, Mapping) else ():
        if isinstance(amount, Mapping) and not before:
            yield from _amounts(amount, f"{name}.")
        elif isinstance(amount, int) and amount >= 0:
            yield f"{before}{name}", amount
