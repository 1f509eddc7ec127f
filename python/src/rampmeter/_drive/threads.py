"""Drives the asks of one process's threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from .._core.ask import Failure, Grant, Pause, Send
from ..errors import RampmeterError
from .process import Process
from .side import Side
from .transport import Transport

LINGER: Final = 1.0
"""Seconds for which the thread that renews leases goes on after the last lease."""

LAST_WORDS: Final = 2.0
"""Seconds that the end of a process gives to what is unsent."""


class Threads(Side):
    """Asks and settles for threads. Belongs to one process."""

    def __init__(self, process: Process, transport: Transport) -> None:
        super().__init__(process, transport.unsent)
        self._transport = transport
        self._renewer: threading.Thread | None = None
        self._lock = threading.Lock()
        """The lock guards the start and the end of the renewer, for microseconds."""
        self._wake = threading.Event()
        self._closed = False

    def acquire(self, resource: str, fields: Mapping[str, Any], age: float, max_wait: float | None) -> Grant:
        """Asks and waits until the grant's start; a reservation is returned before its start."""
        now = time.monotonic()
        ask = self.process.ask(resource, fields, now, age, max_wait)
        steps = ask.steps(now)
        try:
            effect = next(steps)
            while True:
                event = None
                if isinstance(effect, Send):
                    event = self._transport.ask(resource, effect.message, effect.until)
                elif isinstance(effect, Pause):
                    time.sleep(max(0.0, effect.until - time.monotonic()))
                else:
                    self.tell(resource, dict(effect.settle))
                effect = steps.send((time.monotonic(), event))
        except StopIteration as done:
            return self._granted(ask, done.value)
        except BaseException as error:
            self._denied(resource, ask, error)
            raise

    def flush(self, within: float = LAST_WORDS) -> None:
        """Sends what waits to be sent."""
        self._transport.flush(within)

    def close(self) -> None:
        """Sends the last settles, and ends the renewer and all connections."""
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

    def _send(self, resource: str, settle: dict[str, Any]) -> None:
        self._transport.tell(resource, settle)

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
            answers = Failure(str(error))
        self._renewed(resource, renewal["id"], answers)
