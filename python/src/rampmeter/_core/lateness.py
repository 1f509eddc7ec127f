"""How late an answer is, by the clock of the scheduler that wrote it.

The clocks of scheduler and worker are never compared, only lengths of time. The *one-way delay* of
an answer is the time from its stamp to its receipt, the *base delay* the smallest one of the last
30 to 60 seconds. An answer is late by the difference of the two (compare RFC 6817, LEDBAT).
"""

from __future__ import annotations

from typing import Final, NamedTuple

LATENESS: Final = 0.05
"""How much later than promised a call may start. The scheduler's margin covers as much."""

STAMP: Final = 0.001
"""The resolution of stamps. No call starts too early because of it."""

UNKNOWN: Final = float("inf")
"""The base delay before any delay was measured."""

MEMORY: Final = 30.0
"""A base delay is forgotten after one to two of these: clocks drift apart."""


class Stamped(NamedTuple):
    """The times of one answer. It was certainly not asked for before `asked`."""

    asked: float
    received: float
    at_ms: float | None
    epoch: int

    @property
    def one_way(self) -> float | None:
        """The one-way delay. Only its changes have a meaning."""
        return None if self.at_ms is None else self.received - self.at_ms / 1000


class BaseDelay:
    """The base delay of one resource's answers.

    Until one answer has come within `LATENESS` of its request, no slower one is known to be in
    time.

    Example:
        >>> base = BaseDelay()
        >>> base.start(Stamped(0, 0.002, 7001, 1), 5.0, None)
        (5.0, None)
        >>> base.start(Stamped(0.01, 4.001, 8000, 1), 0.0, None)[0] is None
        True
    """

    def __init__(self) -> None:
        self._epoch = 0
        self._since = 0.0
        self._least = UNKNOWN
        self._before = UNKNOWN

    def start(self, answer: Stamped, delay: float, before: float | None) -> tuple[float | None, float | None]:
        """Seconds from the receipt to the start, or nothing if the call would start too late.

        The second value is then this answer's one-way delay: pass it as `before` with the next
        answer. If that is as late, the way itself is that long.
        """
        way = answer.one_way
        if way is None:
            return delay, None
        self._forget_old(answer.epoch, answer.received)
        late = self._lateness(way, max(0.0, answer.received - answer.asked))
        if late <= LATENESS:
            self._least = min(self._least, way)
        if late - delay <= LATENESS:
            return max(0.0, delay - max(0.0, late - STAMP)), None
        if before is not None and abs(way - before) <= LATENESS:
            self._least, self._before = way, UNKNOWN
            return delay, None
        return None, way

    def _forget_old(self, epoch: int, now: float) -> None:
        age = now - self._since
        if epoch != self._epoch or age > 2 * MEMORY:
            self._epoch, self._since, self._least, self._before = epoch, now, UNKNOWN, UNKNOWN
        elif age > MEMORY:
            self._since, self._least, self._before = now, UNKNOWN, self._least

    def _lateness(self, way: float, round_trip: float) -> float:
        base = min(self._least, self._before, way if round_trip <= LATENESS else UNKNOWN)
        return UNKNOWN if base == UNKNOWN else min(max(0.0, way - base), round_trip)
