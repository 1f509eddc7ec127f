"""What a client has counted."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Stats:
    """Totals of one client in one process, since its first use there.

    Attributes:
        granted: Permits that callers received.
        local: Permits among these that the client granted itself, because no scheduler answered.
        denied: Requests that ended without a permit: refused, late or unanswered.
        returned: Permits that were given back unused.
        throttled: Calls that the upstream answered with 429.
        settled: Calls that schedulers know the end of.
        unrenewed: Renewals of calls in flight that a scheduler refused.
        resent: Requests that were sent again, under the same id.
    """

    granted: int = 0
    local: int = 0
    denied: int = 0
    returned: int = 0
    throttled: int = 0
    settled: int = 0
    unrenewed: int = 0
    resent: int = 0


class Counters:
    """The totals of one process. The lock is held for the time of one addition."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def add(self, **counts: int) -> None:
        """Counts so many more of each, by the names in `Stats`."""
        with self._lock:
            for what, count in counts.items():
                self._counts[what] = self._counts.get(what, 0) + count

    def read(self) -> Stats:
        """All totals."""
        with self._lock:
            return replace(Stats(), **self._counts)
