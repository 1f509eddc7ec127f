"""Renewing the places of calls in flight, in limits that count those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .ask import Grant

RENEWALS: Final = 3
"""How often a lease is renewed before it ends. Two renewals may be lost."""

MIN_INTERVAL: Final = 0.05
"""The shortest interval in seconds. A shorter lease is a mistake and must not cause a flood."""

RETRY: Final = 0.125
"""The pause before a failed renewal is repeated, in seconds."""


@dataclass(slots=True)
class Lease:
    """The lease of one call. `asked` tells a successor of the scheduler what to count. `ends` is
    when the lease ends, as far as a scheduler has confirmed it."""

    resource: str
    asked: Mapping[str, Any]
    span: float
    ends: float
    interval: float
    due: float


class Leases:
    """The leases of one process. Each step is atomic, so that a destructor may end a lease."""

    def __init__(self) -> None:
        self._held: dict[str, Lease] = {}

    def begin(self, resource: str, fields: Mapping[str, Any], grant: Grant) -> bool:
        """Notes a call that begins. Returns whether it has a lease."""
        if grant.id is None or not grant.lease:
            return False
        asked = grant.asked(fields)
        interval = max(MIN_INTERVAL, grant.lease / RENEWALS)
        self._held[grant.id] = Lease(
            resource, asked, grant.lease, grant.start + grant.lease, interval, grant.start + interval
        )
        return True

    def end(self, id: str, now: float) -> Mapping[str, Any]:
        """The call has ended. Returns what its settle says beside: while the lease runs, `asked`."""
        lease = self._held.pop(id, None)
        return {} if lease is None or lease.ends <= now else {"asked": dict(lease.asked)}

    def confirm(self, id: str) -> None:
        """A scheduler has confirmed the renewal that was sent last."""
        if (lease := self._held.get(id)) is not None:
            lease.ends = max(lease.ends, lease.due - lease.interval + lease.span)

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
        """Notes a failed renewal, which is repeated soon."""
        if (lease := self._held.get(id)) is not None:
            lease.due = min(lease.due, now + RETRY)

    def refused(self, now: float, id: str, code: str) -> bool:
        """Notes a refused renewal. True if people are to know: another call may have its place."""
        if code == "unavailable":
            self.hasten(now, id)
            return False
        if code in ("unknown_permit", "invalid_request"):
            self._held.pop(id, None)
        return True


def extension(id: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settle that renews the lease of the call `id`."""
    return {"id": id, "extend": True, "asked": dict(asked)}
