"""Permits for requests: `session.mount("https://", PermitAdapter(hub))`.

Example:
    session = requests.Session()
    session.mount("https://api.example.com", PermitAdapter(hub, cost=1, max_wait=60))
    session.get("https://api.example.com/tiles")        # waits for its turn, repeats a 429
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.exceptions import UnrewindableBodyError
from requests.utils import rewind_body

from ._drive.blocking import at_once, blocking
from .outcome import THROTTLED, Outcome
from .permit import Permit
from .resource import Resource
from .terms import Exchange, Terms, Wanted, settle_with_body

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AdapterOptions(Wanted, total=False):
    """What `PermitAdapter` takes: terms, and the options of `HTTPAdapter`."""

    pool_connections: int
    pool_maxsize: int
    max_retries: Any
    pool_block: bool


class PermitAdapter(HTTPAdapter):
    """Sends each request with a permit, and again with a new one after a 429.

    A request whose body can't be sent twice, such as a generator, is sent once. Redirects that
    requests follows ask for permits of their own. Retries of urllib3 no longer answer 429s. Where a
    limit counts calls in flight, a call ends with its body.

    Args:
        resource: The account that the requests are charged to.
        terms: `cost`, `labels`, `not_accounts`, `class_`, `max_wait` and `repeats`, as
            `rampmeter.terms.Wanted` has them, and what `requests.adapters.HTTPAdapter` takes.

    Raises:
        Refused: From every method of a session, if there is no permit.
    """

    __attrs__ = [*HTTPAdapter.__attrs__, "_terms"]  # noqa: RUF012

    def __init__(self, resource: Resource, **terms: Unpack[AdapterOptions]) -> None:
        options: Any = terms
        wanted: Any = {name: options.pop(name) for name in Wanted.__annotations__ if name in options}
        self._terms = Terms(resource, wanted)
        super().__init__(**options)
        statuses = set(self.max_retries.status_forcelist or ()) - {THROTTLED}
        self.max_retries = self.max_retries.new(status_forcelist=statuses, respect_retry_after_header=False)

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        repetition, send = self._terms.repetition(request), partial(super().send, request, *args, **kwargs)
        can_repeat = partial(is_repeatable, request)
        exchange = Exchange(at_once(send), at_once(read), at_once(Response.close), can_repeat, finish)
        response: Response = blocking(exchange.run(repetition, at_once(repetition.acquire)))
        return response


def read(response: Response) -> Response:
    """Reads an error, which keeps its body."""
    _ = response.content
    return response


def finish(permit: Permit, outcome: Outcome, response: Response) -> None:
    """Settles when urllib3 gives the connection back, where the end of the body counts."""
    settle_with_body(permit, outcome, response.raw, "release_conn", "close")


def is_repeatable(request: PreparedRequest) -> bool:
    """Whether the body can be sent again; a file is set back to its beginning."""
    if request.body is None or isinstance(request.body, str | bytes):
        return True
    try:
        rewind_body(request)
    except (UnrewindableBodyError, ValueError):
        return False
    return True
