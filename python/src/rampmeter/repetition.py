"""The repetitions of one call after 429s."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from ._drive import clock
from .asking import Asking
from .errors import InvalidArgument, Refused
from .outcome import Outcome, outcome_of
from .permit import Permit

REPEATS: Final = 3
"""How often a call is repeated. All workers pause after a 429, so that a second one in a row is rare."""


R = TypeVar("R")


class NotCalled(InvalidArgument):
    """What was called has not made its call."""


class Repetition:
    """One call and its repetitions after 429s, which share a deadline and an age.

    Before each call `acquire` or `aacquire` gives its permit, and behind it `goes_on` says whether
    there is another one.

    Args:
        asking: The request for a permit with an age and the time that is left.
        max_wait: The longest wait in seconds, over all repetitions.
        repeats: How often the call is repeated at most.

    Raises:
        InvalidArgument: If `repeats` is no count.
    """

    def __init__(
        self, asking: Callable[[dict[str, float]], Asking], max_wait: float | None, repeats: int = REPEATS
    ) -> None:
        if not isinstance(repeats, int) or repeats < 0:
            raise InvalidArgument(f"repeats is a count from 0 on, not {repeats!r}")
        self._asking = asking
        self._deadline = None if max_wait is None else clock.now() + max_wait
        self._left = repeats
        self._since: float | None = None
        self._last: object = None

    def acquire(self) -> Permit:
        """The permit of the next call, for threads."""
        with self._explained():
            return self._granted(self._next().acquire())

    async def aacquire(self) -> Permit:
        """The permit of the next call, for tasks."""
        with self._explained():
            return self._granted(await self._next().aacquire())

    async def run(
        self,
        acquire: Callable[[], Awaitable[Permit]],
        call: Callable[[], Awaitable[R]],
        close: Callable[[R], Awaitable[object]],
    ) -> R:
        """Calls until there is a result for the caller."""
        while True:
            permit = await acquire()
            try:
                result = await call()
            except NotCalled:
                permit.give_back()
                raise
            except BaseException as error:
                permit.settle(error)
                if not isinstance(error, Exception) or not self.goes_on(outcome_of(error), error):
                    raise
                continue
            outcome = outcome_of(result)
            permit.settle(outcome)
            if not self.goes_on(outcome, result):
                return result
            await close(result)

    def goes_on(self, outcome: Outcome, result: object) -> bool:
        """Whether the call is repeated after this result or error."""
        if not outcome.is_throttled or outcome.is_final or self._left == 0:
            return False
        self._left -= 1
        self._last = result
        return True

    def _next(self) -> Asking:
        """The next request: its age grows, its time shrinks."""
        now, chosen = clock.now(), {}
        if self._deadline is not None:
            chosen["max_wait"] = max(0.0, self._deadline - now)
        if self._since is not None:
            chosen["age"] = max(0.0, now - self._since)
        return self._asking(chosen)

    def _granted(self, permit: Permit) -> Permit:
        self._since = permit.since
        return permit

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A refusal after a 429 tells of that: its body may say why."""
        try:
            yield
        except Refused as refusal:
            if not isinstance(self._last, BaseException):
                refusal.response = self._last
                raise
            refusal.response = getattr(self._last, "response", None)
            raise refusal from self._last
