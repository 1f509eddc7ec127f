"""One connection to NATS, of one event loop."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import nats.errors
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from .._drive.spans import TRACEPARENT
from ..errors import NotRampmeter, RampmeterError, TlsError, Unauthorized
from .address import NatsAddress

PATIENCE: Final = 2.0
"""Seconds for a connection; then the attempt has failed, and goes on beside the requests."""

RECONNECT: Final = 0.1
"""Seconds between attempts to connect again."""

PING: Final = 2
"""Seconds between pings: a server that is gone is noticed after three of them."""

LOG: Final = logging.getLogger("rampmeter")


def why_of(error: BaseException) -> str:
    """Why an attempt has failed, for people."""
    silent = "no NATS server has answered in time; for the HTTP front write http://"
    return silent if isinstance(error, asyncio.TimeoutError) else str(error) or type(error).__name__


class Headers(dict[str, str]):
    """The spans of the parts of a message. nats-py writes what `items` has, also several of one name."""

    def __init__(self, traces: Sequence[str | None]) -> None:
        super().__init__()
        self._traces = traces

    def items(self) -> Any:
        return [(TRACEPARENT, trace or "-") for trace in self._traces]


Handler = Callable[[Msg], Awaitable[None]]


class Connection:
    """Connects when it is first needed, and again whenever the connection is lost."""

    def __init__(self, address: NatsAddress, on_lost: Callable[[], None], on_back: Callable[[], None]) -> None:
        self._address = address
        self._on_lost = on_lost
        self._on_back = on_back
        self._connecting: asyncio.Task[None] | None = None
        self._why = "no server answers"
        self.denied: str | None = None
        """What the server has not permitted last, and the remedy."""
        self._client = NatsClient()
        self._up = asyncio.Event()
        self._subscriptions: dict[str, Handler] = {}

    @property
    def is_up(self) -> bool:
        """Whether a message would be sent now."""
        return self._client.is_connected

    async def ready(self, within: float) -> str | None:
        """Waits for the connection. Returns why there is none, if it does not come in time.

        Raises:
            RampmeterError: If no attempt is of use.
        """
        if self._client.is_connected:
            return None
        if self._connecting is None or (self._connecting.done() and self._connecting.exception()):
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        up = asyncio.ensure_future(self._up.wait())
        waits = {self._connecting, up} if not self._connecting.done() else {up}
        timeout = max(0.0, min(within, PATIENCE))
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if self._connecting.done() and (error := self._connecting.exception()) is not None:
            self._why = self._meaning(error)
        return None if self._client.is_connected else f"{self._address.url}: {self._why}"

    def _meaning(self, error: BaseException) -> str:
        """Why there is no connection, if another attempt is of use.

        Raises:
            RampmeterError: If another attempt is useless.
        """
        url = self._address.url
        if isinstance(error, RampmeterError):
            raise error
        if isinstance(error, nats.errors.AuthorizationError):
            raise Unauthorized(f"{url} refuses this user: {error}; see nats_options= of rampmeter.connect")
        if isinstance(error, ssl.SSLError):
            raise TlsError(f"{url} is not trusted: {error}; see ca_file= of rampmeter.connect")
        return why_of(error)

    async def subscribe(self, subject: str, handler: Handler) -> None:
        """Has messages to `subject` handled, once, over all connections."""
        if subject not in self._subscriptions:
            self._subscriptions[subject] = handler
            await self._client.subscribe(subject, cb=handler)

    async def publish(self, subject: str, payload: bytes, reply: str, traces: Sequence[str | None]) -> bool:
        """Sends a message whose parts have these spans. False if there is no connection for it."""
        if not self._client.is_connected:
            return False
        try:
            await self._client.publish(subject, payload, reply, Headers(traces) if any(traces) else None)
        except (nats.errors.Error, OSError):
            return False
        return True

    def inbox(self) -> str:
        """A subject of this connection's own."""
        return self._client.new_inbox()

    async def flush(self, within: float) -> None:
        """Waits until the server has everything."""
        if self._client.is_connected:
            try:
                await self._client.flush(timeout=max(1, int(within)))
            except (nats.errors.Error, OSError, asyncio.TimeoutError):
                return

    async def close(self) -> None:
        """Ends the connection."""
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if not self._client.is_closed:
            await self._client.close()

    async def _connect(self) -> None:
        self._client = NatsClient()
        context = ssl.create_default_context(cafile=self._address.ca_file) if self._is_secure else None
        options: dict[str, Any] = {
            "name": "rampmeter-python",
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": RECONNECT,
            "ping_interval": PING,
            "pending_size": 0,
            "tls": context,
            **self._address.options,
        }
        await self._client.connect(
            servers=list(self._address.servers),
            error_cb=self._failed,
            disconnected_cb=self._lost,
            reconnected_cb=self._back,
            **options,
        )
        self._up.set()

    @property
    def _is_secure(self) -> bool:
        return self._address.ca_file is not None or self._address.servers[0].startswith("tls:")

    async def _failed(self, error: Exception) -> None:
        self._why = why_of(error)
        if "permissions violation" in self._why.lower():
            self._note_denial(self._why)
        if self._connecting is None or self._connecting.done():
            return
        # No attempt would fare better, and nats-py would go on for ever.
        if isinstance(error, nats.errors.AuthorizationError | ssl.SSLError):
            raise error
        if "INFO" in self._why:
            raise NotRampmeter(f"{self._address.url} is no NATS server; write http:// for the front")

    def _note_denial(self, why: str) -> None:
        remedy = "does this user of NATS have the permissions of deploy/nats?"
        if "subscription to" in why.lower():
            remedy = "name the inboxes of this user: nats_options={'inbox_prefix': …}, or RAMPMETER_INBOX_PREFIX"
        denied, self.denied = self.denied, f"{why}; {remedy}"
        if self.denied != denied:
            LOG.warning("NATS does not permit what this client needs: %s", self.denied)

    async def _lost(self) -> None:
        self._up.clear()
        self._on_lost()

    async def _back(self) -> None:
        self._up.set()
        self._on_back()
