"""Permits for httpx and httpx2: `client = with_permits(httpx.Client(), hub)`.

Example:
    client = with_permits(httpx.Client(http2=True), hub, cost=1, max_wait=60)
    client.get("https://api.example.com/tiles")         # waits for its turn, repeats a 429
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ._drive.blocking import at_once, blocking
from .outcome import Outcome, outcome_of
from .permit import Permit
from .resource import Resource
from .terms import Exchange, Terms, Wanted, settle_with_body

if TYPE_CHECKING:
    from httpx import AsyncBaseTransport, BaseTransport
    from typing_extensions import Unpack
else:
    AsyncBaseTransport = BaseTransport = object

Client = TypeVar("Client")


def with_permits(client: Client, resource: Resource, **terms: Unpack[Wanted]) -> Client:
    """Has a client of httpx or httpx2 ask for permits, and returns it.

    All its requests go through its own transports as before: proxies, certificates, HTTP/2 and
    limits of connections stay. A second time replaces the terms of the first.

    Args:
        client: A `Client` or an `AsyncClient`.
        resource: The account that the requests are charged to.
        terms: `cost`, `labels`, `not_accounts`, `class_`, `max_wait` and `repeats`, as
            `rampmeter.terms.Wanted` has them.
    """
    kind = AsyncTransport if hasattr(client, "aclose") else Transport
    return around_each(client, lambda below: kind(resource, below, **terms))


def around_each(client: Client, wrap: Callable[[Any], Any]) -> Client:
    """Wraps each transport of a client, those of its proxies too."""

    def wrapped(transport: Any) -> Any:
        below = transport._transport if isinstance(transport, _Base) else transport
        return None if below is None else wrap(below)

    parts: Any = client
    parts._transport = wrapped(parts._transport)
    parts._mounts = {pattern: wrapped(transport) for pattern, transport in parts._mounts.items()}
    return client


class _Base:
    def __init__(self, resource: Resource, transport: Any, **terms: Unpack[Wanted]) -> None:
        self._terms = Terms(resource, terms)
        self._transport = transport

    def told(self, request: Any, response: Any) -> Outcome:
        """What a response to the request says about the call."""
        return outcome_of(response)

    def finish(self, request: Any, permit: Permit, outcome: Outcome, response: Any) -> None:
        """Settles the permit of a response whose body is still to come."""
        settle_with_body(permit, outcome, response.stream, "close", "aclose")


class Transport(_Base, BaseTransport):
    """A transport that sends each request with a permit, and again with a new one after a 429.

    A request whose body is a generator or a file is sent once. No time-out of the client counts the
    wait for the permit. Where a limit counts calls in flight, a call ends with its body. `with_permits`
    wraps the transports that a client has, so that its own options count.

    Args:
        resource: The account that the requests are charged to.
        transport: What sends the requests: `httpx.HTTPTransport()`, or that of httpx2.
        terms: `cost`, `labels`, `not_accounts`, `class_`, `max_wait` and `repeats`, as
            `rampmeter.terms.Wanted` has them.

    Raises:
        Refused: From every method of a client, if there is no permit.
    """

    def handle_request(self, request: Any) -> Any:
        """The response to one request."""

        def read(response: Any) -> Any:
            body = b"".join(response.stream)
            response.stream.close()
            return with_body(response, body)

        def close(response: Any) -> None:
            response.stream.close()

        repetition, send = self._terms.repetition(request), partial(self._transport.handle_request, request)
        # A body that was not read into memory can be sent once only.
        can_repeat, finish = partial(hasattr, request, "_content"), partial(self.finish, request)
        told = partial(self.told, request)
        exchange = Exchange(at_once(send), at_once(read), at_once(close), can_repeat, finish, told)
        return blocking(exchange.run(repetition, at_once(repetition.acquire)))

    def close(self) -> None:
        """Closes the transport below."""
        self._transport.close()

    def __enter__(self) -> Any:
        self._transport.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._transport.__exit__(*error)


class AsyncTransport(_Base, AsyncBaseTransport):
    """What `Transport` is, for `httpx.AsyncClient` and around `httpx.AsyncHTTPTransport()`."""

    async def handle_async_request(self, request: Any) -> Any:
        """The response to one request."""

        async def read(response: Any) -> Any:
            body = b"".join([part async for part in response.stream])
            await response.stream.aclose()
            return with_body(response, body)

        async def close(response: Any) -> None:
            await response.stream.aclose()

        repetition, send = self._terms.repetition(request), partial(self._transport.handle_async_request, request)
        can_repeat, finish = partial(hasattr, request, "_content"), partial(self.finish, request)
        exchange = Exchange(send, read, close, can_repeat, finish, partial(self.told, request))
        return await exchange.run(repetition, repetition.aacquire)

    async def aclose(self) -> None:
        """Closes the transport below."""
        await self._transport.aclose()

    async def __aenter__(self) -> Any:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._transport.__aexit__(*error)


def with_body(response: Any, body: bytes) -> Any:
    """The response with the body that was read from it. The caller can read that from `response`, too."""
    package = sys.modules[type(response).__module__.partition(".")[0]]
    response.stream = package.ByteStream(body)
    return type(response)(response.status_code, headers=response.headers, content=body)
