"""What all threads and event loops of one process share."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from .._core.answer import Answer, text
from .._core.ask import Ask
from .._core.contact import Contact
from ..counters import Counters
from ..policy import Fail, SafeRate

LOG = logging.getLogger("rampmeter")

BENIGN = frozenset(["already_settled", "unknown_permit", "lapsed"])
"""Refusals of settles that show nothing wrong: the scheduler is new, or has heard it before."""


class Process:
    """The contacts and counters of one process. Nothing here survives a fork."""

    def __init__(self, policy_of: Callable[[str], Fail | SafeRate | None]) -> None:
        self.pid = os.getpid()
        self.counters = Counters()
        self._policy_of = policy_of
        self._dice = Random(os.urandom(16))
        self._contacts: dict[str, Contact] = {}

    def contact(self, resource: str) -> Contact:
        """The contact to the schedulers of a resource."""
        known = self._contacts.get(resource)
        if known is None:
            fresh = Contact(resource, self._policy_of(resource), self._dice, LOG.warning)
            known = self._contacts.setdefault(resource, fresh)
        return known

    def has_other_policy(self, resource: str, policy: Fail | SafeRate | None) -> bool:
        """Whether requests for a resource go by another policy here."""
        known = self._contacts.get(resource)
        return known is not None and known.policy != policy

    def ask(
        self,
        resource: str,
        fields: Mapping[str, Any],
        now: float,
        age: float,
        max_wait: float | None,
    ) -> Ask:
        """A new request."""
        return Ask(fields, self.contact(resource), new_id, now, age, max_wait)

    def settled(self, resource: str, answer: Answer) -> None:
        """Takes note of the answer to a settle."""
        if text(answer, "status") == "settled":
            self.counters.add("settled")
        elif text(answer, "code") not in BENIGN:
            LOG.warning("a settle of resource %r was refused: %s", resource, text(answer, "message"))


def new_id() -> str:
    """A random UUID from the system: no fork repeats it, and no client can guess it."""
    return str(uuid.uuid4())
