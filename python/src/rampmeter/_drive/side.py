"""What threads and event loops do alike with permits and their ends."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from .._core.answer import Answer, text
from .._core.ask import Ask, Failure, Grant
from .._core.leases import Leases
from .process import LOG, Process


class Side:
    """One driver of a process: its threads, or one event loop. It owns what it asks for."""

    def __init__(self, process: Process, unsent: deque[tuple[str, dict[str, Any]]]) -> None:
        self.process = process
        self._leases = Leases()
        self._unsent = unsent

    def begin(self, resource: str, fields: Mapping[str, Any], grant: Grant) -> None:
        """A call begins: its place is renewed until it ends."""
        if self._leases.begin(resource, fields, grant):
            self._start_renewer()

    def end(self, resource: str, settle: dict[str, Any]) -> None:
        """A call has ended: this is its settle."""
        self.tell(resource, {**settle, **self._leases.end(settle["id"], time.monotonic())})

    def drop(self, resource: str, settle: dict[str, Any]) -> None:
        """Queues the settle of a forgotten permit for the next message. Takes no lock."""
        beside = self._leases.end(settle["id"], time.monotonic())
        self._unsent.append((resource, {**settle, **beside}))

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Sends a settle, and waits for nothing."""
        if settle.get("used") is False:
            self.process.counters.add("returned")
        self._send(resource, settle)

    def _send(self, resource: str, settle: dict[str, Any]) -> None:
        raise NotImplementedError

    def _start_renewer(self) -> None:
        raise NotImplementedError

    def _granted(self, ask: Ask, grant: Grant) -> Grant:
        self.process.counters.granted(grant.id is None, ask.resent)
        return grant

    def _denied(self, resource: str, ask: Ask, error: BaseException) -> None:
        self.process.counters.add("denied")
        if (settle := ask.abandoned(error)) is not None:
            self.tell(resource, settle)

    def _renewed(self, resource: str, id: str, answers: list[Answer] | Failure) -> None:
        """Takes note of the answer to a renewal. People are told if the call has lost its place."""
        now = time.monotonic()
        if isinstance(answers, Failure):
            return self._leases.hasten(now, id)
        code = text(answers[0], "code")
        if code is None:
            self._leases.confirm(id)
        if code is not None and self._leases.refused(now, id, code):
            self.process.counters.add("unrenewed")
            message = text(answers[0], "message")
            LOG.warning("a call in flight of resource %r was not renewed: %s", resource, message)
