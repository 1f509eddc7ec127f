"""Permits for httpx and httpx2: `httpx.Client(transport=Transport(hub, httpx.HTTPTransport()))`.

Example:
    client = httpx.Client(transport=Transport(hub, httpx.HTTPTransport(), cost=1, max_wait=60))
    client.get("https://api.example.com/tiles")         # waits for its turn, repeats a 429
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from .cost import Cost
from .outcome import outcome_of
from .permit import Permit
from .resource import LOG, Resource
from .terms import Terms


class _Base:
    """What both transports share.

    Args:
        resource: The account that the requests are charged to.
        transport: What sends the requests: `httpx.HTTPTransport()`, or that of httpx2.
        cost: What a request costs: an amount, amounts by unit, or a function of the request.
        labels: The labels of a request, or a function of the request.
        class_: The priority class.
        max_wait: The longest wait in seconds, over all repetitions.
    """

    def __init__(
        self,
        resource: Resource,
        transport: Any,
        cost: Cost | Callable[[Any], Cost] = 1,
        labels: Mapping[str, str] | Callable[[Any], Mapping[str, str]] | None = None,
        class_: str | None = None,
        max_wait: float | None = None,
    ) -> None:
        self._terms: Terms[Any] = Terms(resource, cost, labels, class_=class_)
        self._max_wait = max_wait
        self._transport = transport

    def finish(self, request: Any, response: Any, permit: Permit) -> None:
        """Settles the permit of a response that is no 429. Adapters wait for its body instead."""
        permit.settle(response)

    def is_repeated(self, request: Any, response: Any, permit: Permit) -> bool:
        """Settles a response; whether the request is to be sent again."""
        outcome = outcome_of(response)
        if not outcome.is_throttled:
            self.finish(request, response, permit)
            return False
        permit.settle(outcome)
        LOG.warning("the upstream of %r answered 429; asking for a new permit", self._terms.resource.name)
        # A body that was not read into memory can be sent once only.
        return hasattr(request, "_content")


class Transport(_Base):
    """Sends each request with a permit, and again with a new one after a 429.

    A request whose body is a generator or a file is sent once. No time-out of the client counts the
    wait for the permit.

    Raises:
        Refused: From every method of a client, if there is no permit.
    """

    def handle_request(self, request: Any) -> Any:
        """The response to one request."""
        repetition = self._terms.resource.repetition(self._max_wait)
        while True:
            permit = self._terms.asking(request, repetition.options(time.monotonic())).acquire()
            repetition.granted(permit.since)
            try:
                response = self._transport.handle_request(request)
            except BaseException as error:
                permit.settle(error)
                raise
            if not self.is_repeated(request, response, permit):
                return response
            response.close()

    def close(self) -> None:
        """Closes the transport below."""
        self._transport.close()

    def __enter__(self) -> Any:
        self._transport.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.__exit__(kind, error, trace)


class AsyncTransport(_Base):
    """The same for `httpx.AsyncClient`, around `httpx.AsyncHTTPTransport()`."""

    async def handle_async_request(self, request: Any) -> Any:
        """The response to one request."""
        repetition = self._terms.resource.repetition(self._max_wait)
        while True:
            permit = await self._terms.asking(request, repetition.options(time.monotonic())).aacquire()
            repetition.granted(permit.since)
            try:
                response = await self._transport.handle_async_request(request)
            except BaseException as error:
                permit.settle(error)
                raise
            if not self.is_repeated(request, response, permit):
                return response
            await response.aclose()

    async def aclose(self) -> None:
        """Closes the transport below."""
        await self._transport.aclose()

    async def __aenter__(self) -> Any:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)
