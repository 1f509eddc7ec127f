"""Permits for requests: `session.mount("https://", PermitAdapter(hub))`.

Example:
    session = requests.Session()
    session.mount("https://api.example.com", PermitAdapter(hub, cost=1, max_wait=60))
    session.get("https://api.example.com/tiles")        # waits for its turn, repeats a 429
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.exceptions import UnrewindableBodyError
from requests.utils import rewind_body

from .cost import Cost
from .outcome import THROTTLED
from .resource import Resource
from .terms import Terms


class PermitAdapter(HTTPAdapter):
    """Sends each request with a permit, and again with a new one after a 429.

    A request whose body can't be sent twice, such as a generator, is sent once. Redirects that
    requests follows ask for permits of their own. Retries of urllib3 no longer answer 429s.

    Args:
        resource: The account that the requests are charged to.
        cost: What a request costs: an amount, amounts by unit, or a function of the request.
        labels: The labels of a request, or a function of the request.
        class_: The priority class.
        max_wait: The longest wait in seconds, over all repetitions.
        options: What `requests.adapters.HTTPAdapter` takes.

    Raises:
        Refused: From every method of a session, if there is no permit.
    """

    def __init__(
        self,
        resource: Resource,
        cost: Cost | Callable[[PreparedRequest], Cost] = 1,
        labels: Mapping[str, str] | Callable[[PreparedRequest], Mapping[str, str]] | None = None,
        class_: str | None = None,
        max_wait: float | None = None,
        **options: Any,
    ) -> None:
        self._terms = Terms(resource, cost, labels, class_=class_)
        self._max_wait = max_wait
        super().__init__(**options)
        statuses = set(self.max_retries.status_forcelist or ()) - {THROTTLED}
        self.max_retries = self.max_retries.new(status_forcelist=statuses, respect_retry_after_header=False)

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        resource = self._terms.resource
        repetition = resource.repetition(self._max_wait)
        while True:
            permit = self._terms.asking(request, repetition.options(time.monotonic())).acquire()
            repetition.granted(permit.since)
            try:
                response = super().send(request, *args, **kwargs)
            except BaseException as error:
                permit.settle(error)
                raise
            if not resource.settles_as_throttled(permit, response) or not is_repeatable(request):
                return response
            response.close()


def is_repeatable(request: PreparedRequest) -> bool:
    """Whether the body can be sent again; a file is set back to its beginning."""
    if request.body is None or isinstance(request.body, str | bytes):
        return True
    try:
        rewind_body(request)
    except (UnrewindableBodyError, ValueError):
        return False
    return True
