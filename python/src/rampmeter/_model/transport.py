"""Transports of language models: estimates before a call, and settles from its usage."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from ..errors import InvalidArgument, NotInTime, RampmeterError, Unreachable
from ..httpx import AsyncTransport, Transport, _Base, around_each
from ..outcome import BAD_REQUEST, THROTTLED, Outcome
from ..permit import Permit
from ..resource import Resource
from ..terms import Labels
from .estimate import estimate, labels_of
from .meter import Meter
from .money import CallPrice, Money
from .prices import File
from .prompts import Prompts

Costing = Callable[[float, float], dict[str, float]]
"""Makes the units of a cost from tokens of input and of output."""

Client = TypeVar("Client")

REFUSED = range(400, 500)
"""The statuses of requests that a vendor has refused. Some bill the prompts that they have read."""

UNREAD = frozenset((401, 403, 404, 405, 413, 415, 422, 429))
"""Those for which it has read no prompt."""

UNAVAILABLE = 503
"""The status of a call for which no scheduler answers."""


@functools.cache
def _metered(base: type) -> Any:
    """A stream of one of httpx's kinds that feeds a meter."""

    class Metered(base):  # type: ignore[misc]
        def __init__(self, stream: Any, feed: Callable[[bytes], None], end: Callable[[bool], None]) -> None:
            self._stream, self._feed, self._end = stream, feed, end

        def __iter__(self) -> Iterator[bytes]:
            for data in self._stream:
                self._feed(data)
                yield data
            self._end(True)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for data in self._stream:
                self._feed(data)
                yield data
            self._end(True)

        def close(self) -> None:
            self._end(False)
            self._stream.close()

        async def aclose(self) -> None:
            self._end(False)
            await self._stream.aclose()

    return Metered


class _Model(_Base):
    """What both transports of language models add: estimates, and settles from the usage."""

    _costing: Costing
    _count: Callable[[str, str], int] | None
    _labels: Labels
    _money: Money | None
    _prompts: Prompts

    def __init__(self, resource: Resource, transport: Any, costing: Costing, count: Any, **options: Any) -> None:
        self._costing, self._count, self._labels = costing, count, options.pop("labels", None)
        self._money = options.pop("money", None)
        self._prompts = Prompts()
        super().__init__(resource, transport, cost=self.cost_of, labels=self.labels_of, **options)

    def _estimate(self, request: Any) -> tuple[float, float]:
        """The tokens of a request, without those of its prompt that the vendor keeps."""
        read, most = estimate(request, self._count)
        return max(0, read - self._prompts.kept(request)), most

    def cost_of(self, request: Any) -> dict[str, float]:
        """The estimate, and the most money. Answers are asked for in an encoding that the meter reads."""
        price = self._price(request)
        request.headers["accept-encoding"] = "gzip"
        return {**self._costing(*self._estimate(request)), **(price.most() if price else {})}

    def _price(self, request: Any) -> CallPrice | None:
        return None if self._money is None else self._money.of(request)

    def labels_of(self, request: Any) -> dict[str, str]:
        """The model of the request. Labels that the program sets itself take precedence."""
        given = self._labels(request) if callable(self._labels) else self._labels
        return {**labels_of(request), **self._terms.resource.labels, **(given or {})}

    def told(self, request: Any, response: Any) -> Outcome:
        """The outcome. A call that the vendor has refused costs its prompt at most."""
        outcome = super().told(request, response)
        price = self._price(request) if outcome.status in REFUSED else None
        if price is None:
            return outcome
        return replace(outcome, cost=price.nothing() if outcome.status in UNREAD else price.prompt())

    def finish(self, request: Any, permit: Permit, outcome: Outcome, response: Any) -> None:
        """Settles at the end of the body."""
        if response.status_code != 200:
            return super().finish(request, permit, outcome, response)
        price = self._price(request)
        meter = Meter(*self._estimate(request), response.headers.get("content-encoding", ""))

        def used(is_whole: bool) -> Outcome:
            if meter.kept:
                self._prompts.note(request, meter.kept)
            paid = price.paid(meter.paid(is_whole, price.has_output)) if price else {}
            return replace(outcome, cost={**self._costing(*meter.used(is_whole)), **paid})

        def end(is_whole: bool) -> None:
            if not permit.is_settled:
                permit.settle(used(is_whole))

        # A program may leave its loop over the events, and forget the stream.
        permit.if_lost = functools.partial(used, False)
        httpx = sys.modules[type(response).__module__.partition(".")[0]]
        base = httpx.AsyncByteStream if hasattr(response.stream, "__aiter__") else httpx.SyncByteStream
        response.stream = _metered(base)(response.stream, meter.feed, end)


class ModelTransport(_Model, Transport):
    """A transport of a language model's client in threads."""

    def handle_request(self, request: Any) -> Any:
        try:
            return unrepeated(super().handle_request(request))
        except RampmeterError as error:
            return refusal(request, error)


class AsyncModelTransport(_Model, AsyncTransport):
    """A transport of a language model's client in tasks."""

    async def handle_async_request(self, request: Any) -> Any:
        try:
            return unrepeated(await super().handle_async_request(request))
        except RampmeterError as error:
            return refusal(request, error)


def unrepeated(response: Any) -> Any:
    """The response. A 429 was repeated here, and the vendor's package would begin anew."""
    if response.status_code == THROTTLED:
        response.headers["x-should-retry"] = "false"
    return response


def refusal(request: Any, error: RampmeterError) -> Any:
    """The response that a package of a vendor understands: any exception would be a connection that it tries again."""
    status, kind = BAD_REQUEST, "invalid_request_error"
    if isinstance(error, Unreachable):
        status, kind = UNAVAILABLE, "api_error"
    elif isinstance(error, NotInTime) or getattr(error, "retry_after", None) is not None:
        status, kind = THROTTLED, "rate_limit_error"
    httpx = sys.modules[type(request).__module__.partition(".")[0]]
    told = {"type": kind, "code": getattr(error, "code", None), "message": f"rampmeter: {error}"}
    body = {"type": "error", "error": told}
    return httpx.Response(status, headers={"x-should-retry": "false"}, json=body, extensions={"rampmeter": error})


def with_model_permits(
    client: Client,
    resource: Resource,
    costing: Costing,
    count: Any = None,
    *,
    money: str | None = None,
    prices: File | None = None,
    **terms: Any,
) -> Client:
    """What `with_permits` is, for the client of a language model."""
    if money is None and prices is not None:
        raise InvalidArgument('`prices` are for limits in money: name their unit, as in `money="usd"`')
    charged = None if money is None else Money(money, prices)
    kind = AsyncModelTransport if hasattr(client, "aclose") else ModelTransport
    return around_each(client, lambda below: kind(resource, below, costing, count, money=charged, **terms))
