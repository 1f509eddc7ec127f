"""What happens while no scheduler answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .errors import InvalidArgument

SHORTEST: Final = 0.001
LONGEST: Final = 86_400.0
MIN_PATIENCE: Final = 0.1
MAX_PATIENCE: Final = 3600.0
PATIENCE: Final = 2.0
"""How long schedulers may be silent, in seconds, before a process helps itself."""


@dataclass(frozen=True)
class SafeRate:
    """The rate at which one process may call one resource while no scheduler answers.

    Calls are evenly spaced, without a burst. **Only calls count, not their cost in other units**,
    and each process counts for itself. A safe rate is the worst-case capacity of the account,
    divided by the number of processes and by the cost of the dearest call.

    Attributes:
        calls: How many calls.
        per: In how many seconds.
        after: After how many seconds of silence.

    Raises:
        InvalidArgument: If that is more than 1000 calls a second or less than one a day.

    Example:
        >>> SafeRate(10, per=60).interval
        6.0
        >>> SafeRate(0, per=1)
        Traceback (most recent call last):
        rampmeter.errors.InvalidArgument: a safe rate is from one call a day to 1000 a second
    """

    calls: float
    per: float = 1.0
    after: float = PATIENCE

    def __post_init__(self) -> None:
        if not self.calls > 0 or not SHORTEST <= self.per / self.calls <= LONGEST:
            raise InvalidArgument("a safe rate is from one call a day to 1000 a second")
        checked_patience(self.after)

    @property
    def interval(self) -> float:
        """Seconds from one call to the next."""
        return self.per / self.calls


@dataclass(frozen=True)
class Fail:
    """Requests fail after this many seconds of silence."""

    after: float = PATIENCE

    def __post_init__(self) -> None:
        checked_patience(self.after)


Policy: TypeAlias = "Literal['wait', 'fail'] | Fail | SafeRate"
"""`"wait"`: requests wait. `"fail"`: they fail after two seconds. A `SafeRate`: they go on at it."""


def checked_patience(after: float) -> None:
    """Raises InvalidArgument if `after` is too short or too long."""
    if not MIN_PATIENCE <= after <= MAX_PATIENCE:
        raise InvalidArgument(f"patience is from 0.1 s to an hour, not {after} s")


def checked_policy(policy: Policy) -> Fail | SafeRate | None:
    """The policy with its numbers; nothing if it is to wait.

    Raises:
        InvalidArgument: If the policy is invalid.
    """
    if policy == "wait":
        return None
    if policy == "fail":
        return Fail()
    if isinstance(policy, Fail | SafeRate):
        return policy
    raise InvalidArgument(f"unreachable is 'wait', 'fail' or a SafeRate, not {policy!r}")
