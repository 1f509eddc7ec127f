"""The right to make one call, and the report of how it went."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from ._core.ask import Grant
from ._drive import clock
from ._drive.blocking import blocking
from ._drive.process import LOG
from ._drive.spans import TRACEPARENT
from .cost import Cost
from .outcome import Outcome, checked_outcome, outcome_of, was_never_sent

if TYPE_CHECKING:
    from ._drive.side import Side

On429: TypeAlias = "Callable[[Permit, Outcome], object]"
"""Is called after a 429."""


class Permit:
    """One call that may be made now, until it is settled.

    Settle it with the upstream's response. A permit that is neither settled nor given back counts as
    used, at its estimated cost. It belongs to the process that asked for it: a forked child settles
    nothing. Its representation shows no id, because an id is a secret.
    """

    def __init__(
        self, side: Side, resource: str, fields: Mapping[str, Any], grant: Grant, on_429: On429 | None = None
    ) -> None:
        self._side = side
        self._resource = resource
        self._fields = fields
        self._grant = grant
        self._on_429 = on_429
        self._begun = clock.now()
        self._ended = grant.id is None
        self.if_lost: Callable[[], Outcome] = Outcome
        """What is settled if the program holds the permit no more."""
        side.begin(resource, fields, grant)

    def settle(self, response: object = None, *, cost: Cost | None = None, quota_spent: bool = False) -> None:
        """Reports how the call went. A second report changes nothing.

        This waits for nothing; a thread waits over HTTP until a scheduler knows of a 429, for two
        seconds at most, so that its next request does not overtake that.

        Args:
            response: The upstream's response: a response of requests, httpx, aiohttp or urllib, a
                status, or an `Outcome`. Only its status and headers that speak of limits are sent.
                An error of a connection that was never made gives the permit back.
            cost: What the call really cost. A unit that is left out keeps its estimate.
            quota_spent: The answer says that a quota is spent, such as a month's.

        Raises:
            InvalidArgument: If `cost` is invalid, or `response` shows no outcome, such as a body.
                The permit is not settled then.
            RuntimeError: If another process has asked for the permit.
        """
        if was_never_sent(response):
            return self.give_back()
        outcome = checked_outcome(response)
        if cost is not None or quota_spent:
            spent = quota_spent or outcome.quota_spent
            outcome = replace(outcome, quota_spent=spent, cost=outcome.cost if cost is None else cost)
        report = outcome.report()
        self._check_process()
        is_throttled = outcome.is_throttled and not self._ended
        if is_throttled:
            self._side.process.throttled(self._resource)
        elapsed = round(1000 * (clock.now() - self._begun), 3)
        self._end({"used": True, **report, "elapsed_ms": elapsed})
        if is_throttled and self._on_429 is not None:
            call_hook(self._on_429, self, outcome)

    def give_back(self) -> None:
        """Gives the permit back: no call was made with it. Nothing is charged."""
        self._check_process()
        self._end({"used": False})

    @property
    def id(self) -> str:
        """The id, a secret until the permit is settled; empty if the permit is local."""
        return self._grant.id or ""

    @property
    def is_local(self) -> bool:
        """Whether this process granted it itself, because no scheduler answered."""
        return self._grant.id is None

    @property
    def has_place(self) -> bool:
        """Whether a limit counts the calls in flight: this one has a place until it is settled."""
        return self._grant.lease is not None

    @property
    def account(self) -> str | None:
        """The account that makes the call, if the resource has accounts."""
        return self._grant.account

    @property
    def way(self) -> int:
        """The way in which the call has to be made: 0 as described, otherwise the entry of `or_`, from 1."""
        return self._grant.way

    @property
    def limited_by(self) -> str | None:
        """The limit that set the delay, if one did."""
        return self._grant.limited_by

    @property
    def cost(self) -> Mapping[str, float]:
        """What the call costs in its `way`: as it was asked for, or as the scheduler has computed by `price`."""
        cost: Mapping[str, float] = self._grant.asked(self._fields).get("cost", {"requests": 1})
        return cost

    @property
    def left(self) -> tuple[Mapping[str, Any], ...]:
        """What the limits have left, if the request asked with `left=True`."""
        return self._grant.left

    @property
    def waited(self) -> float:
        """Seconds from the first request to the start."""
        return self._grant.start - self._grant.since

    @property
    def since(self) -> float:
        """When it was first wanted, on `time.monotonic`."""
        return self._grant.since

    @property
    def is_settled(self) -> bool:
        """Whether its end was reported."""
        return self._ended

    def delay(self) -> float:
        """Seconds until the call may start; more than 0 for a reservation only."""
        return max(0.0, self._grant.start - clock.now())

    def ready(self) -> None:
        """Waits for the start of a reservation.

        If a freeze or a long sleep has made it void, it is given back, and this asks for a new
        permit at its age. The call may be made at once when this returns.

        Raises:
            Refused: If a new permit was needed, and was refused.
        """
        blocking(self.aready())

    async def aready(self) -> None:
        """Waits in a task for the start of a reservation, as `ready` does in a thread."""
        if (delay := self.delay()) > 0:
            await self._side.pause(delay)
        if not self._is_good():
            self.give_back()
            age = clock.now() - self._grant.since
            self._renew(await self._side.acquire(self._resource, {**self._fields, "mode": "wait"}, age, None))

    def _is_good(self) -> bool:
        voids = self._side.process.contact(self._resource).voids
        return self.valid_for() > 0 and not voids(self._grant.received, self._grant.start, self._grant.charged)

    def _renew(self, grant: Grant) -> None:
        self._grant, self._ended = grant, grant.id is None
        self._begun = clock.now()
        self._side.begin(self._resource, self._fields, grant)

    def valid_for(self) -> float:
        """Seconds for which a call may still be started; 0 if none may."""
        return max(0.0, self._grant.lapses() - clock.now())

    def _end(self, report: dict[str, Any]) -> None:
        if not self._ended:
            self._ended = True
            self._side.end(self._resource, self._settle(report))

    def _settle(self, report: Mapping[str, Any]) -> dict[str, Any]:
        trace = {TRACEPARENT: self._fields[TRACEPARENT]} if TRACEPARENT in self._fields else {}
        return {"id": self._grant.id, **report, **trace}

    def _close(self, error: BaseException | None) -> None:
        """The block of the call has ended. A call that failed may have arrived, and the error may be of another."""
        if not self._ended and os.getpid() == self._side.process.pid:
            self.settle(outcome_of(error))

    def _check_process(self) -> None:
        if os.getpid() != self._side.process.pid:
            raise RuntimeError("another process has asked for this permit; ask for one here")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a permit can't be sent to another process; ask for one there")

    def __repr__(self) -> str:
        state = "settled" if self._ended else "in flight"
        return f"<Permit of {self._resource!r}, {state}>"

    def __del__(self) -> None:
        if not getattr(self, "_ended", True) and os.getpid() == self._side.process.pid:
            self._ended = True
            # Without a lock, and sent with the next message.
            self._side.drop(self._resource, self._settle({"used": True, **self.if_lost().report()}))


def call_hook(hook: Callable[..., object], *told: object) -> None:
    """Calls a hook of the program, whose errors are none of the call's."""
    try:
        hook(*told)
    except Exception:
        LOG.exception("a hook has failed")
