"""What all threads and event loops of one process share."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Mapping
from random import Random
from typing import Final

from .._core.answer import Answer, text
from .._core.contact import Contact
from ..counters import Counters
from ..policy import Fail, SafeRate

LOG = logging.getLogger("rampmeter")

BENIGN = frozenset(["unknown_permit", "lapsed"])
"""Refusals of settles that show nothing wrong: the scheduler is new."""

TOLD_EVERY: Final = 60.0
"""Seconds from one line about 429s of a resource to the next."""


class Process:
    """The contacts and counters of one process. Nothing here survives a fork."""

    def __init__(self, policies: Mapping[str, Fail | SafeRate | None], usual: Fail | SafeRate | None) -> None:
        self.pid = os.getpid()
        self.counters = Counters()
        self._policies, self._usual = policies, usual
        self._dice = Random(os.urandom(16))
        self._contacts: dict[str, Contact] = {}
        self._told: dict[str, tuple[float, int]] = {}
        """When people were told of 429s of a resource, and how many have come since."""

    def contact(self, resource: str) -> Contact:
        """The contact to the schedulers of a resource."""
        known = self._contacts.get(resource)
        if known is None:
            policy = self._policies.get(resource, self._usual)
            fresh = Contact(resource, policy, self._dice, LOG.warning)
            known = self._contacts.setdefault(resource, fresh)
        return known

    def has_other_policy(self, resource: str, policy: Fail | SafeRate | None) -> bool:
        """Whether requests for a resource go by another policy here."""
        known = self._contacts.get(resource)
        return known is not None and known.policy != policy

    def throttled(self, resource: str) -> None:
        """Counts a 429. People are told once a minute."""
        self.counters.add(throttled=1)
        now, (at, more) = time.monotonic(), self._told.get(resource, (float("-inf"), 0))
        if now - at < TOLD_EVERY:
            self._told[resource] = at, more + 1
        else:
            self._told[resource] = now, 0
            LOG.warning("the upstream of %r answered 429, and %d times since the last such line", resource, more)

    def settled(self, resource: str, answer: Answer) -> None:
        """Takes note of the answer to a settle."""
        if text(answer, "status") == "settled" or text(answer, "code") == "already_settled":
            self.counters.add(settled=1)
        elif text(answer, "code") not in BENIGN:
            LOG.warning("a settle of resource %r was refused: %s", resource, text(answer, "message"))


def new_id() -> str:
    """A random UUID from the system: no fork repeats it, and no client can guess it."""
    return str(uuid.uuid4())
