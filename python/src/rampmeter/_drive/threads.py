"""Drives the asks of one process's threads."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from . import clock
from .blocking import blocking
from .process import Process
from .side import LAST_WORDS, Side
from .transport import Transport

LINGER: Final = 1.0
"""Seconds for which the thread that renews leases goes on after the last lease."""


class Threads(Side):
    """Asks and settles for threads. Belongs to one process."""

    def __init__(self, process: Process, transport: Transport) -> None:
        super().__init__(process, transport)
        self._renewer: threading.Thread | None = None
        self._lock = threading.Lock()
        """The lock guards the start and the end of the renewer, for microseconds."""
        self._wake = threading.Event()
        self._closed = False

    async def pause(self, seconds: float) -> None:
        clock.sleep(seconds)

    def flush(self, within: float = LAST_WORDS) -> None:
        """Sends what waits to be sent."""
        blocking(self._transport.flush(within))

    def close(self) -> None:
        """Sends the last settles, and ends the renewer and all connections."""
        with self._lock:
            self._closed, renewer = True, self._renewer
        self._wake.set()
        if renewer is not None and renewer is not threading.current_thread():
            renewer.join(LAST_WORDS)
        self.flush()
        blocking(self._transport.close())

    def abandon(self) -> None:
        """Closes this process's copies of sockets that a fork has inherited."""
        blocking(self._transport.close())

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
            blocking(self._renew_due())
