"""Permits for aiohttp: `aiohttp.ClientSession(middlewares=(Permits(hub),))`."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import BytesPayload, ClientHandlerType, ClientRequest, ClientResponse, StreamReader
from aiohttp.base_protocol import BaseProtocol

from .outcome import Outcome
from .permit import Permit
from .resource import Resource
from .terms import Exchange, Terms, Wanted, settle_with_body

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Permits:
    """A client middleware: sends each request with a permit, and again after a 429.

    A request whose body is a stream is sent once. `ClientTimeout.total` counts the wait for the
    permit: leave it out, or bound the wait with `max_wait`. Where a limit counts calls in flight, a
    call ends with its body.

    Args:
        resource: The account that the requests are charged to.
        terms: `cost`, `labels`, `not_accounts`, `class_`, `max_wait` and `repeats`, as
            `rampmeter.terms.Wanted` has them.

    Raises:
        Refused: From every method of a session, if there is no permit.
    """

    def __init__(self, resource: Resource, **terms: Unpack[Wanted]) -> None:
        self._terms = Terms(resource, terms)

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        repetition = self._terms.repetition(request)
        exchange = Exchange(partial(handler, request), read, close, partial(is_repeatable, request), finish)
        response: ClientResponse = await exchange.run(repetition, repetition.aacquire)
        return response


async def read(response: ClientResponse) -> ClientResponse:
    """Reads an error. Callers may read its body as a stream, too."""
    response.content = again(await response.read())
    return response


async def close(response: ClientResponse) -> None:
    """Closes a response that no caller gets."""
    response.close()


def finish(permit: Permit, outcome: Outcome, response: ClientResponse) -> None:
    """Settles when the body has ended, where that counts: it was read, or the response is closed."""
    settle_with_body(permit, outcome, response, "close", "release")
    response.content.on_eof(partial(permit.settle, outcome))


def is_repeatable(request: ClientRequest) -> bool:
    """Whether the body can be sent again: it is in memory, or the request has no body."""
    return isinstance(request.body, bytes | BytesPayload)


def again(body: bytes) -> StreamReader:
    """A stream of a body that was read, for callers that read streams."""
    loop = asyncio.get_running_loop()
    stream = StreamReader(BaseProtocol(loop), len(body) + 1, loop=loop)
    stream.feed_data(body)
    stream.feed_eof()
    return stream
