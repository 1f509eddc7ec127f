"""The right to make one call, and the report of how it went."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ._core.ask import Grant, unused
from .cost import Cost
from .outcome import checked_outcome

if TYPE_CHECKING:
    from ._drive.loop import Loop
    from ._drive.threads import Threads


class Permit:
    """One call that may be made now, until it is settled.

    Settle it with the upstream's response. A permit that is neither settled nor given back counts as
    used, at its estimated cost. It belongs to the process that asked for it: a forked child settles
    nothing. Its representation shows no id, because an id is a secret.
    """

    def __init__(self, side: Threads | Loop, resource: str, fields: Mapping[str, Any], grant: Grant) -> None:
        self._side = side
        self._resource = resource
        self._fields = fields
        self._grant = grant
        self._begun = time.monotonic()
        self._ended = grant.id is None
        side.begin(resource, fields, grant)

    def settle(self, response: object = None, *, cost: Cost | None = None, quota_spent: bool = False) -> None:
        """Reports how the call went, and waits for nothing. A second report changes nothing.

        Args:
            response: The upstream's response: a response of requests, httpx, aiohttp or urllib, a
                status, or an `Outcome`. Only its status and headers that speak of limits are sent.
            cost: What the call really cost. A unit that is left out keeps its estimate.
            quota_spent: The answer says that a quota is spent, such as a month's.

        Raises:
            InvalidArgument: If `cost` is invalid, or `response` shows no outcome, such as a body.
                The permit is not settled then.
            RuntimeError: If another process has asked for the permit.
        """
        outcome = checked_outcome(response)
        if cost is not None or quota_spent:
            spent = quota_spent or outcome.quota_spent
            outcome = replace(outcome, quota_spent=spent, cost=cost or outcome.cost)
        report = outcome.report()
        self._check_process()
        if outcome.is_throttled and not self._ended:
            self._side.process.counters.add("throttled")
        self._end(
            {
                "used": True,
                **report,
                "elapsed_ms": round(1000 * (time.monotonic() - self._begun), 3),
            }
        )

    def give_back(self) -> None:
        """Gives the permit back: no call was made with it. Nothing is charged."""
        self._check_process()
        if not self._ended and self._grant.id is not None:
            self._end(unused(self._grant.id))

    @property
    def id(self) -> str:
        """The id, a secret until the permit is settled; empty if the permit is local."""
        return self._grant.id or ""

    @property
    def is_local(self) -> bool:
        """Whether this process granted it itself, because no scheduler answered."""
        return self._grant.id is None

    @property
    def limited_by(self) -> str | None:
        """The limit that set the delay, if one did."""
        return self._grant.limited_by

    @property
    def cost(self) -> Mapping[str, float]:
        """What the call costs: as it was asked for, or as the scheduler has computed by `price`."""
        return self._grant.cost or self._fields.get("cost") or {"requests": 1}

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
        return max(0.0, self._grant.start - time.monotonic())

    def ready(self) -> None:
        """Waits for the start of a reservation.

        If a freeze or a long sleep has made it void, it is given back, and this asks for a new
        permit at its age. The call may be made at once when this returns.

        Raises:
            Refused: If a new permit was needed, and was refused.
        """
        side = cast("Threads", self._side)
        if (delay := self.delay()) > 0:
            time.sleep(delay)
        if not self._is_good():
            self.give_back()
            age = time.monotonic() - self._grant.since
            self._renew(side.acquire(self._resource, {**self._fields, "mode": "wait"}, age, None))

    async def aready(self) -> None:
        """The same for tasks."""
        side = cast("Loop", self._side)
        if (delay := self.delay()) > 0:
            await asyncio.sleep(delay)
        if not self._is_good():
            self.give_back()
            age = time.monotonic() - self._grant.since
            self._renew(await side.acquire(self._resource, {**self._fields, "mode": "wait"}, age, None))

    def _is_good(self) -> bool:
        voids = self._side.process.contact(self._resource).voids
        return self.valid_for() > 0 and not voids(self._grant.received, self._grant.start, self._grant.charged)

    def _renew(self, grant: Grant) -> None:
        self._grant, self._ended = grant, grant.id is None
        self._begun = time.monotonic()
        self._side.begin(self._resource, self._fields, grant)

    def valid_for(self) -> float:
        """Seconds for which a call may still be started; 0 if none may."""
        return max(0.0, self._grant.lapses() - time.monotonic())

    def _end(self, report: dict[str, Any]) -> None:
        if not self._ended:
            self._ended = True
            self._side.end(self._resource, {"id": self._grant.id, **report})

    def _close(self, error: BaseException | None) -> None:
        """The block of the call has ended. A call that failed may have arrived."""
        if not self._ended and os.getpid() == self._side.process.pid:
            self.settle(error)

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
            self._side.drop(self._resource, {"id": self._grant.id, "used": True})
