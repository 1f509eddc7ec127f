"""The repetitions of one call after 429s."""

from __future__ import annotations


class Repetition:
    """What one call and its repetitions share: the deadline and the age."""

    def __init__(self, max_wait: float | None, now: float) -> None:
        self._deadline = None if max_wait is None else now + max_wait
        self._since: float | None = None

    def options(self, now: float) -> dict[str, float]:
        """The options of the next request: its age grows, its time shrinks."""
        chosen: dict[str, float] = {}
        if self._deadline is not None:
            chosen["max_wait"] = max(0.0, self._deadline - now)
        if self._since is not None:
            chosen["age"] = max(0.0, now - self._since)
        return chosen

    def granted(self, since: float) -> None:
        """A permit has come that is wanted since then."""
        self._since = since
