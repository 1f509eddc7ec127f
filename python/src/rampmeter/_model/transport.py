"""Transports of language models: estimates before a call, and settles from its usage."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeAlias

from ..httpx import AsyncTransport, Transport
from ..outcome import Outcome, of_limits
from ..permit import Permit
from ..resource import Resource
from ..terms import Terms
from .estimate import estimate, labels_of
from .meter import Meter
from .prompts import Prompts

Costing = Callable[[float, float], dict[str, float]]
"""Makes the units of a cost from tokens of input and of output."""

Labels: TypeAlias = "Mapping[str, str] | Callable[[Any], Mapping[str, str]] | None"
"""The labels of a request, or a function of the request."""


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


class _Model:
    """What both transports of language models add: estimates, and settles from the usage."""

    _costing: Costing
    _count: Callable[[str, str], int] | None
    _labels: Labels
    _terms: Terms[Any]
    _prompts: Prompts

    def _estimate(self, request: Any) -> tuple[float, float]:
        """The tokens of a request, without those of its prompt that the vendor keeps."""
        read, most = estimate(request, self._count)
        return max(0, read - self._prompts.kept(request)), most

    def cost_of(self, request: Any) -> dict[str, float]:
        """The estimate. Answers are asked for in an encoding that the meter reads."""
        request.headers["accept-encoding"] = "gzip"
        return self._costing(*self._estimate(request))

    def labels_of(self, request: Any) -> dict[str, str]:
        """The model of the request. Labels that the program sets itself take precedence."""
        given = self._labels(request) if callable(self._labels) else self._labels
        return {**labels_of(request), **self._terms.resource.labels, **(given or {})}

    def finish(self, request: Any, response: Any, permit: Permit) -> None:
        """Settles at the end of the body."""
        if response.status_code != 200:
            return permit.settle(response)
        meter = Meter(*self._estimate(request), response.headers.get("content-encoding", ""))
        told = Outcome(response.status_code, of_limits(response.headers.multi_items()))

        def end(is_whole: bool) -> None:
            if not permit.is_settled:
                if meter.kept:
                    self._prompts.note(request, meter.kept)
                permit.settle(told, cost=self._costing(*meter.used(is_whole)))

        httpx = sys.modules[type(response).__module__.partition(".")[0]]
        base = httpx.AsyncByteStream if hasattr(response.stream, "__aiter__") else httpx.SyncByteStream
        response.stream = _metered(base)(response.stream, meter.feed, end)


class ModelTransport(_Model, Transport):
    """A transport of a language model's client in threads."""

    def __init__(self, resource: Resource, transport: Any, costing: Costing, count: Any = None, **options: Any) -> None:
        self._costing, self._count, self._labels = costing, count, options.pop("labels", None)
        self._prompts = Prompts()
        Transport.__init__(self, resource, transport, self.cost_of, self.labels_of, **options)


class AsyncModelTransport(_Model, AsyncTransport):
    """A transport of a language model's client in tasks."""

    def __init__(self, resource: Resource, transport: Any, costing: Costing, count: Any = None, **options: Any) -> None:
        self._costing, self._count, self._labels = costing, count, options.pop("labels", None)
        self._prompts = Prompts()
        AsyncTransport.__init__(self, resource, transport, self.cost_of, self.labels_of, **options)


MAX_CONNECTIONS, MAX_KEPT = 1000, 100
"""Connections of a client, as the packages of OpenAI and Anthropic have them."""


def client_of(
    client: Any, is_async: bool, resource: Resource, transport: Any, costing: Costing, count: Any = None, **options: Any
) -> Any:
    """A client of a class from httpx or httpx2, around `transport` or a new one."""
    names = (base.__module__.partition(".")[0] for base in client.__mro__)
    httpx = sys.modules[next(name for name in names if name in ("httpx", "httpx2"))]
    if transport is None:
        make = httpx.AsyncHTTPTransport if is_async else httpx.HTTPTransport
        transport = make(limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_KEPT))
    around = AsyncModelTransport if is_async else ModelTransport
    return client(transport=around(resource, transport, costing, count, **options))
