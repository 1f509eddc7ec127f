"""Renewing the places of calls in flight, in limits that count those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

RENEWALS: Final = 3
"""How often a lease is renewed before it ends. Two renewals may be lost."""

LEAST_INTERVAL: Final = 0.05
"""The shortest interval in seconds. A shorter lease is a mistake and must not cause a flood."""

RETRY: Final = 0.125
"""The pause before a failed renewal is repeated, in seconds."""


@dataclass(slots=True)
class Lease:
    """The lease of one call. `asked` tells a successor of the scheduler what to count."""

    resource: str
    asked: Mapping[str, Any]
    interval: float
    due: float


class Leases:
    """The leases of one process. Each step is atomic, so that a destructor may end a lease."""

    def __init__(self) -> None:
        self._held: dict[str, Lease] = {}

    def begin(self, id: str, resource: str, asked: Mapping[str, Any], start: float, span: float) -> float:
        """A call has begun whose lease ends `span` after `start`. When its renewal is due."""
        interval = max(LEAST_INTERVAL, span / RENEWALS)
        self._held[id] = Lease(resource, asked, interval, start + interval)
        return start + interval

    def end(self, id: str) -> None:
        """The call has ended."""
        self._held.pop(id, None)

    def next_due(self) -> float | None:
        """When the next renewal is due; nothing if no lease is held."""
        return min((lease.due for lease in list(self._held.values())), default=None)

    def take_due(self, now: float) -> list[tuple[str, dict[str, Any]]]:
        """The renewals that are due, each with its resource."""
        due = [(id, lease) for id, lease in list(self._held.items()) if lease.due <= now]
        for _, lease in due:
            lease.due = now + lease.interval
        return [(lease.resource, extension(id, lease.asked)) for id, lease in due]

    def hasten(self, now: float, id: str) -> None:
        """A renewal has failed: repeat it soon."""
        if (lease := self._held.get(id)) is not None:
            lease.due = min(lease.due, now + RETRY)

    def refused(self, now: float, id: str, code: str) -> bool:
        """A renewal was refused. Whether people are to be told: another call may have its place."""
        if code == "unavailable":
            self.hasten(now, id)
            return False
        if code in ("unknown_permit", "invalid_request"):
            self.end(id)
        return True


def extension(id: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settle that renews the lease of the call `id`."""
    return {"id": id, "extend": True, "asked": dict(asked)}
