"""Whether the schedulers of one resource answer, and what they have said of themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Final

from ..errors import Unreachable
from ..policy import Fail, SafeRate
from .answer import Buckets
from .bucket import Bucket
from .lateness import BaseDelay

SHORTEST: Final = 0.005
"""A scheduler that hands over has a successor within milliseconds."""

LONGEST: Final = 0.25
"""The longest pause before the next attempt. Attempts have a common pace besides."""

PACE: Final = 0.0005
"""The common pace of attempts after failures: 2 000 a second cost a tenth of one core."""

BURST: Final = 64
"""Attempts after a failure that need no pace."""

PROBE: Final = 0.25
"""How often a resource without a scheduler is tried, whatever its policy."""

TOLD_AFTER: Final = 2.0
TOLD_EVERY: Final = 60.0
"""When people are told that no scheduler answers, in seconds."""

MAX_FREEZES: Final = 64
"""The most freezes that are told apart."""

HEARSAY: Final = 10.0
"""How long an epoch counts that only an event has named."""


class Contact:
    """One resource's schedulers, as one process knows them.

    All methods take a microsecond, so that threads may share it: the lock is never held across I/O.
    """

    def __init__(
        self, resource: str, policy: Fail | SafeRate | None, dice: Random, report: Callable[[str], None]
    ) -> None:
        self.resource = resource
        self._policy = policy
        self._dice = dice
        self._report = report
        self._lock = threading.Lock()
        self._epoch = 0
        self._hearsay = (0, 0.0)
        self._freezes: list[tuple[float, float, Buckets]] = []
        self._last = float("-inf")
        self._failures = 0
        self._why = ""
        self._lost_since: float | None = None
        self._lost_until = 0.0
        self._probe_at = 0.0
        self._told_at: float | None = None
        self._attempts = Bucket(PACE, BURST)
        self._local = Bucket(policy.interval, 1) if isinstance(policy, SafeRate) else None
        self.base_delay = BaseDelay()

    @property
    def policy(self) -> Fail | SafeRate | None:
        """The policy for a silence; nothing if requests wait."""
        return self._policy

    @property
    def patience(self) -> float:
        """Seconds of silence after which the policy begins; infinite if it is to wait."""
        return float("inf") if self._policy is None else self._policy.after

    def epoch(self) -> int | None:
        """The highest epoch of an answer, for requests."""
        return self._epoch or None

    def heard(self, now: float, epoch: int, is_event: bool = False) -> bool:
        """A scheduler of this epoch (0: of none) has spoken. False if it no longer leads."""
        with self._lock:
            if 0 < epoch < self._known(now):
                return False
            if is_event:
                self._hearsay = max(self._hearsay, (epoch, now))
                self._failures = 0
            else:
                self._epoch = max(self._epoch, epoch)
            self._last = now
            self._lost_since = None
            told, self._told_at = self._told_at, None
        if told is not None:
            self._report(f"a scheduler of resource {self.resource!r} answers again")
        return True

    def succeeded(self) -> None:
        """A scheduler has decided on a request: pauses begin anew."""
        self._failures = 0

    def put_off(self, now: float) -> float:
        """When to send a request again that a scheduler has not decided on."""
        with self._lock:
            self._failures = min(self._failures + 1, 16)
        return self.next_attempt(now)

    def failed(self, now: float, owed: float, why: str) -> None:
        """An attempt has failed; an answer was owed since then."""
        with self._lock:
            since = max(owed, self._last)
            self._failures = min(self._failures + 1, 16)
            self._why = why
            if self._policy is not None and now - since >= self._policy.after:
                self._lose(now, since, self._policy)
            tell = now - since >= TOLD_AFTER and (self._told_at is None or now - self._told_at >= TOLD_EVERY)
            if tell:
                self._told_at = now
        if tell:
            self._report(f"no scheduler of resource {self.resource!r} has answered for {now - since:.0f} s: {why}")

    def may_try(self, now: float) -> bool:
        """Whether an attempt is of use now: without a scheduler, one every `PROBE` is enough."""
        with self._lock:
            if self._lost_since is None or now > self._lost_until:
                self._lost_since = None
                return True
            if now < self._probe_at:
                return False
            self._probe_at = now + PROBE
            return True

    def is_local(self, now: float, may_wait: bool) -> bool:
        """Whether a call may start now without a scheduler.

        Raises:
            Unreachable: If the policy is to fail, or it is not this call's turn and it can't wait.
        """
        with self._lock:
            if self._lost_since is None:
                return False
            silence = now - self._lost_since
            if self._local is None:
                after = self._policy.after if self._policy else 0.0
                raise self._unreachable(silence, after * (1 + self._dice.random() / 4))
            if self._local.take(now):
                return True
            if not may_wait:
                raise self._unreachable(silence, self._local.opens() - now)
            return False

    def next_attempt(self, now: float) -> float:
        """When to go on after a failure."""
        with self._lock:
            if self._lost_since is not None and self._local is not None:
                return min(max(now, self._local.opens()), now + PROBE)
            most = min(LONGEST, SHORTEST * 2.0 ** max(1, self._failures))
            pause = SHORTEST + self._dice.random() * (most - SHORTEST)
            return max(now + pause, self._attempts.reserve(now))

    def freeze(self, now: float, until: float, buckets: Buckets = frozenset()) -> None:
        """Starts of these buckets that were granted before and fall before `until` are void.

        Without buckets, those of all are. Beyond `MAX_FREEZES`, all freezes are one of every bucket.
        """
        with self._lock:
            known = [freeze for freeze in self._freezes if freeze[1] > now]
            known.append((now, until, buckets))
            longest = max(until for _, until, _ in known)
            self._freezes = known if len(known) <= MAX_FREEZES else [(now, longest, frozenset())]

    def voids(self, received: float, start: float, charged: Buckets) -> bool:
        """Whether a freeze has made a start void that was granted then, and is charged to these buckets."""
        return any(
            received <= seen <= start < until and not (buckets and charged and buckets.isdisjoint(charged))
            for seen, until, buckets in self._freezes
        )

    def jitter(self) -> float:
        """A number from 0 to 1."""
        return self._dice.random()

    def _known(self, now: float) -> int:
        epoch, since = self._hearsay
        return max(self._epoch, epoch) if now - since < HEARSAY else self._epoch

    def _lose(self, now: float, since: float, policy: Fail | SafeRate) -> None:
        if self._lost_since is None:
            self._lost_since = since
            if self._local is not None and self._local.opens() <= now:
                # A whole fleet loses its scheduler at once; its calls must not all come at once.
                self._local.hold_until(now + self._dice.random() * self._local.interval)
        self._lost_until = now + max(policy.after, 2 * PROBE)
        self._probe_at = max(self._probe_at, now + PROBE)

    def _unreachable(self, silence: float, retry_after: float) -> Unreachable:
        message = (
            f"no scheduler of resource {self.resource!r} has answered for {silence:.1f} s; start `rampmeter "
            "serve`, check the address given to rampmeter.connect, or let requests wait: unreachable='wait' "
            f"({self._why})"
        )
        return Unreachable(message, max(0.0, retry_after))
