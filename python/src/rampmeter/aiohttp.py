"""Permits for aiohttp: `aiohttp.ClientSession(middlewares=(Permits(hub),))`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from aiohttp import BytesPayload, ClientHandlerType, ClientRequest, ClientResponse

from .cost import Cost
from .resource import Resource
from .terms import Terms


class Permits:
    """A client middleware: sends each request with a permit, and again after a 429.

    A request whose body is a stream is sent once. `ClientTimeout.total` counts the wait for the
    permit: leave it out, or bound the wait with `max_wait`.

    Args:
        resource: The account that the requests are charged to.
        cost: What a request costs: an amount, amounts by unit, or a function of the request.
        labels: The labels of a request, or a function of the request.
        class_: The priority class.
        max_wait: The longest wait in seconds, over all repetitions.

    Raises:
        Refused: From every method of a session, if there is no permit.
    """

    def __init__(
        self,
        resource: Resource,
        cost: Cost | Callable[[ClientRequest], Cost] = 1,
        labels: Mapping[str, str] | Callable[[ClientRequest], Mapping[str, str]] | None = None,
        class_: str | None = None,
        max_wait: float | None = None,
    ) -> None:
        self._terms = Terms(resource, cost, labels, class_=class_)
        self._max_wait = max_wait

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        resource = self._terms.resource
        repetition = resource.repetition(self._max_wait)
        while True:
            permit = await self._terms.asking(request, repetition.options(time.monotonic())).aacquire()
            repetition.granted(permit.since)
            try:
                response = await handler(request)
            except BaseException as error:
                permit.settle(error)
                raise
            if not resource.settles_as_throttled(permit, response) or not is_repeatable(request):
                return response
            response.close()


def is_repeatable(request: ClientRequest) -> bool:
    """Whether the body can be sent again: it is in memory, or the request has no body."""
    return isinstance(request.body, bytes | BytesPayload)
