"""Drives the asks of one process's threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from .._core.answer import Answer, text
from .._core.ask import Failure, Grant, Pause, Reply, Send, unused
from .._core.leases import Leases
from ..errors import RampmeterError, Refused, Unreachable
from .process import LOG, Process
from .transport import Transport

LINGER: Final = 1.0
"""Seconds for which the thread that renews leases outlives the last of them."""

LAST_WORDS: Final = 2.0
"""Seconds that the end of a process gives to what is unsent."""


class Threads:
    """Asks and settles for threads. Belongs to one process."""

    def __init__(self, process: Process, transport: Transport) -> None:
        self.process = process
        self._transport = transport
        self._leases = Leases()
        self._renewer: threading.Thread | None = None
        self._lock = threading.Lock()
        """Guards the start and the end of the renewer, for microseconds."""
        self._wake = threading.Event()
        self._closed = False

    def acquire(self, resource: str, fields: Mapping[str, Any], age: float, max_wait: float | None) -> Grant:
        """A grant whose start has come, unless it is a reservation."""
        now = time.monotonic()
        ask = self.process.ask(resource, fields, now, age, max_wait)
        steps = ask.steps(now)
        counters = self.process.counters
        try:
            effect, event = next(steps), None
            while True:
                event = None
                if isinstance(effect, Send):
                    event = self._exchange(resource, effect)
                elif isinstance(effect, Pause):
                    time.sleep(max(0.0, effect.until - time.monotonic()))
                else:
                    self.tell(resource, dict(effect.settle))
                effect = steps.send((time.monotonic(), event))
        except StopIteration as done:
            grant: Grant = done.value
        except BaseException as error:
            steps.close()
            counters.add("denied")
            if ask.is_open and (isinstance(error, Refused | Unreachable) or not isinstance(error, RampmeterError)):
                self.tell(resource, unused(ask.id))
            raise
        counters.granted(grant.id is None, ask.resent)
        return grant

    def begin(self, resource: str, fields: Mapping[str, Any], grant: Grant) -> None:
        """A call begins: its place is renewed until it ends."""
        if grant.id is not None and grant.lease:
            asked = {name: fields[name] for name in ("cost", "labels") if name in fields}
            self._leases.begin(grant.id, resource, asked, grant.start, grant.lease)
            self._start_renewer()

    def end(self, resource: str, settle: dict[str, Any]) -> None:
        """A call has ended: this is its settle."""
        self._leases.end(settle["id"])
        self.tell(resource, settle)

    def drop(self, resource: str, settle: dict[str, Any]) -> None:
        """A permit is forgotten: its settle waits for the next message. No lock is taken."""
        self._leases.end(settle["id"])
        self._transport.unsent.append((resource, settle))

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Sends a settle, and waits for nothing."""
        if settle.get("used") is False:
            self.process.counters.add("returned")
        self._transport.tell(resource, settle)

    def flush(self, within: float = LAST_WORDS) -> None:
        """Sends what waits to be sent."""
        self._transport.flush(within)

    def close(self) -> None:
        """Says the last words, ends the renewer and all connections."""
        with self._lock:
            self._closed, renewer = True, self._renewer
        self._wake.set()
        if renewer is not None and renewer is not threading.current_thread():
            renewer.join(LAST_WORDS)
        self.flush()
        self._transport.close()

    def abandon(self) -> None:
        """Closes this process's copies of sockets that a fork has inherited."""
        self._transport.close()

    def _exchange(self, resource: str, send: Send) -> Reply | Failure:
        return self._transport.ask(resource, send.message, send.until)

    def _start_renewer(self) -> None:
        with self._lock:
            self._wake.set()
            if self._renewer is None and not self._closed:
                self._renewer = threading.Thread(target=self._renew, name="rampmeter-renewer", daemon=True)
                self._renewer.start()

    def _renew(self) -> None:
        """Renews leases while there are any."""
        idle_since = time.monotonic()
        while True:
            now, due = time.monotonic(), self._leases.next_due()
            idle_since = idle_since if due is None else now
            with self._lock:
                if self._closed or (due is None and now - idle_since >= LINGER):
                    self._renewer = None
                    return
                self._wake.clear()
            self._wake.wait(LINGER if due is None else max(0.0, min(due - now, LINGER)))
            for resource, renewal in self._leases.take_due(time.monotonic()):
                self._renew_one(resource, renewal)

    def _renew_one(self, resource: str, renewal: dict[str, Any]) -> None:
        try:
            answers = self._transport.settle(resource, [renewal], time.monotonic() + LAST_WORDS)
        except RampmeterError as error:
            answers = str(error)
        renewed(self.process, self._leases, resource, renewal["id"], answers)


def renewed(process: Process, leases: Leases, resource: str, id: str, answers: list[Answer] | str) -> None:
    """Takes note of the answer to a renewal. People are told if the call has lost its place."""
    now = time.monotonic()
    if isinstance(answers, str):
        return leases.hasten(now, id)
    code = text(answers[0], "code")
    if code is not None and leases.refused(now, id, code):
        process.counters.add("unrenewed")
        message = text(answers[0], "message")
        LOG.warning("a call in flight of resource %r was not renewed: %s", resource, message)
