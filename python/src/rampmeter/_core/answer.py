"""What schedulers answer, as far as a client reads it."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Answer: TypeAlias = dict[str, Any]
"""One answer. Its fields come from the network: read them with `number` and `text`."""

Buckets: TypeAlias = frozenset[tuple[str, str | None]]
"""Limits, each with its key or with None."""


def answers_in(payload: bytes) -> list[Answer]:
    """The answers of one message; none if it is unreadable."""
    try:
        read = json.loads(payload)
    except ValueError:
        return []
    found = read if isinstance(read, list) else [read]
    return [answer for answer in found if isinstance(answer, dict) and text(answer, "status")]


def number(answer: Answer, name: str) -> float | None:
    """The number of this name, if there is one that is not negative."""
    value = answer.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e17:
        return value
    return None


def seconds(answer: Answer, name: str) -> float | None:
    """The milliseconds of this name, as seconds."""
    value = number(answer, name)
    return None if value is None else value / 1000


def text(answer: Answer, name: str) -> str | None:
    """The string of this name, if there is one."""
    value = answer.get(name)
    return value if isinstance(value, str) else None


def buckets(answer: Answer, name: str) -> Buckets:
    """The limits of this name, with their keys if they have keys."""
    value = answer.get(name)
    pairs = [tuple(each) for each in value if isinstance(each, list)] if isinstance(value, list) else []
    return frozenset(pair for pair in pairs if len(pair) == 2 and all(isinstance(part, str | None) for part in pair))


def epoch_of(answer: Answer) -> int:
    """The epoch of its leader; 0 if it names none."""
    return int(number(answer, "epoch") or 0)
