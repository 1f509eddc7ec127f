"""A rate with a burst: the generic cell rate algorithm."""

from __future__ import annotations


class Bucket:
    """One token every `interval` seconds, and several at once after a rest.

    Example:
        >>> bucket = Bucket(interval=10, burst=2)
        >>> [bucket.reserve(100) for _ in range(3)]
        [100, 100, 110]
    """

    def __init__(self, interval: float, burst: int) -> None:
        self.interval = interval
        self._slack = interval * (burst - 1)
        self._spent_until = 0.0

    def opens(self) -> float:
        """When the next token may be taken."""
        return self._spent_until - self._slack

    def hold_until(self, until: float) -> None:
        """Gives no token before `until`, and no burst at that time."""
        self._spent_until = max(self._spent_until, until + self._slack)

    def take(self, now: float) -> bool:
        """Takes a token, if there is one."""
        if self.opens() > now:
            return False
        self._spent_until = max(self._spent_until, now) + self.interval
        return True

    def reserve(self, now: float) -> float:
        """Takes the next token, and returns when it is there."""
        at = max(now, self.opens())
        self._spent_until = max(self._spent_until, at) + self.interval
        return at
