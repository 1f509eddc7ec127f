"""What threads and event loops do alike with permits and their ends."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from .._core.answer import Answer, text
from .._core.ask import Ask, Failure, Grant, Pause, Send
from .._core.leases import Leases
from ..errors import RampmeterError
from . import clock
from .process import LOG, Process, new_id
from .spans import PermitSpan
from .transport import Transport

LAST_WORDS: Final = 2.0
"""Seconds that the end of a process or of an event loop gives to what is unsent."""


class Side:
    """One driver of a process: its threads, or one event loop. It owns what it asks for."""

    def __init__(self, process: Process, transport: Transport) -> None:
        self.process = process
        self._transport = transport
        self._leases = Leases()

    def begin(self, resource: str, fields: Mapping[str, Any], grant: Grant) -> None:
        """A call begins: its place is renewed until it ends."""
        if self._leases.begin(resource, fields, grant):
            self._start_renewer()

    def end(self, resource: str, settle: dict[str, Any]) -> None:
        """A call has ended: this is its settle."""
        self.tell(resource, {**settle, **self._leases.end(settle["id"], clock.now())})

    def drop(self, resource: str, settle: dict[str, Any]) -> None:
        """Queues the settle of a forgotten permit for the next message. Takes no lock."""
        beside = self._leases.end(settle["id"], clock.now())
        self._transport.unsent.append((resource, {**settle, **beside}))

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Sends a settle, and waits for nothing but the receipt of a 429."""
        if settle.get("used") is False:
            self.process.counters.add(returned=1)
        self._send(resource, settle)

    async def acquire(self, resource: str, fields: Mapping[str, Any], age: float, max_wait: float | None) -> Grant:
        """A grant whose start has come, unless it is a reservation. In threads, this blocks."""
        now = clock.now()
        span = PermitSpan(resource, fields)
        ask = Ask(span.fields, self.process.contact(resource), new_id, now, age, max_wait)
        steps = ask.steps(now)
        try:
            effect = next(steps)
            while True:
                event = None
                if isinstance(effect, Send):
                    event = await self._transport.ask(resource, effect.message, effect.until)
                elif isinstance(effect, Pause):
                    await self.pause(max(0.0, effect.until - clock.now()))
                else:
                    self.tell(resource, dict(effect.settle))
                effect = steps.send((clock.now(), event))
        except StopIteration as done:
            span.granted(done.value)
            return self._granted(resource, ask, done.value)
        except BaseException as error:
            span.denied(error)
            self._denied(resource, ask, error)
            raise

    async def pause(self, seconds: float) -> None:
        """Waits in a thread or in a task."""
        raise NotImplementedError

    def _send(self, resource: str, settle: dict[str, Any]) -> None:
        raise NotImplementedError

    def _start_renewer(self) -> None:
        raise NotImplementedError

    def _granted(self, resource: str, ask: Ask, grant: Grant) -> Grant:
        self.process.counters.add(granted=1, local=int(grant.id is None), resent=ask.resent)
        waited = grant.start - grant.since
        LOG.debug("resource %r: a permit after %.3f s, held by %s", resource, waited, grant.limited_by)
        return grant

    def _denied(self, resource: str, ask: Ask, error: BaseException) -> None:
        self.process.counters.add(denied=1)
        if (settle := ask.abandoned(error)) is not None:
            self.tell(resource, settle)

    async def _renew_due(self) -> None:
        for resource, renewal in self._leases.take_due(time.monotonic()):
            try:
                answers = await self._transport.settle(resource, [renewal])
            except RampmeterError as error:
                answers = Failure(str(error))
            self._renewed(resource, renewal["id"], answers)

    def _renewed(self, resource: str, id: str, answers: list[Answer] | Failure) -> None:
        """Takes note of the answer to a renewal. People are told if the call has lost its place."""
        now = clock.now()
        if isinstance(answers, Failure):
            return self._leases.hasten(now, id)
        code = text(answers[0], "code")
        if code is None:
            self._leases.confirm(id)
        if code is not None and self._leases.refused(now, id, code):
            self.process.counters.add(unrenewed=1)
            message = text(answers[0], "message")
            LOG.warning("a call in flight of resource %r was not renewed: %s", resource, message)
