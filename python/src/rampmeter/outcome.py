"""How a call went."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .bounds import MAX_HEADER_NAME, MAX_HEADER_VALUE, MAX_HEADERS
from .cost import Cost, checked_cost
from .errors import InvalidArgument

BAD_REQUEST: Final = 400
THROTTLED: Final = 429

FINAL: Final = frozenset(
    ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "access_terminated")
)
"""Codes of a 429 that no wait mends."""

NEVER_SENT: Final = frozenset(
    (
        # Of Python, of httpx, of urllib3 and of aiohttp, whichever of them is there.
        *("ConnectionRefusedError", "gaierror"),
        *("ConnectError", "ConnectTimeout", "PoolTimeout"),
        *("NewConnectionError", "ConnectTimeoutError"),
        *("ClientConnectorError", "ConnectionTimeoutError"),
    )
)
"""Names of errors before a request was sent: the call was not made."""

MAX_ERROR_BODY: Final = 16 * 1024
"""Bytes of a body that is looked at for the code of an error. Larger ones are no errors."""

MAX_CAUSES: Final = 8
"""How many causes of an error are looked at."""

OF_LIMITS: Final = frozenset(
    ("date", "sforce-limit-info", "x-amzn-errortype", "x-processingunits-spent", "x-shopify-shop-api-call-limit")
)
"""Headers that schedulers read although their names do not say so."""

_MARK: Final = re.compile("quota|rate-?limit|retry-after|throttl")
_SECRET: Final = re.compile(
    "(?:^|[-_])(auth|authorization|cookie|key|password|secret|session|signature|token)(?:[-_]|$)"
)


def speaks_of_limits(name: str) -> bool:
    """Whether a header is passed on. No other header leaves the process: it may hold a secret."""
    lower = name.lower()
    if lower in OF_LIMITS:
        return True
    return len(lower) <= MAX_HEADER_NAME and bool(_MARK.search(lower)) and not _SECRET.search(lower)


@dataclass(frozen=True)
class Outcome:
    """What a scheduler learns from a call. Every part may be left out.

    Attributes:
        status: The upstream's HTTP status. 429 pauses the violated limit for all workers.
        headers: The upstream's headers; only those that speak of limits are passed on.
        quota_spent: Whether the body says that a quota is spent, such as a month's.
        cost: What the call really cost. A unit that is left out keeps its estimate.
        code: The code of the error in the body, which tells a spent quota from a forbidden call.
            It needs a status beside it.

    Example:
        >>> Outcome(429, {"Retry-After": "1500", "Set-Cookie": "secret"}).response()
        {'status': 429, 'headers': {'retry-after': '1500'}}
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    quota_spent: bool = False
    cost: Cost | None = None
    code: str | None = None

    @property
    def is_throttled(self) -> bool:
        """Whether the upstream answered 429."""
        return self.status == THROTTLED

    @property
    def is_final(self) -> bool:
        """Whether its error is one that no wait mends, such as an account without money."""
        return self.code in FINAL

    def response(self) -> dict[str, Any] | None:
        """The upstream's response as the wire has it; nothing without a status."""
        if self.status is None:
            return None
        answer = {"status": self.status, "headers": of_limits(self.headers.items())}
        return {**answer, **given(quota_spent=self.quota_spent or None, code=self.code)}

    def report(self) -> dict[str, Any]:
        """The fields of a settle."""
        return given(cost=None if self.cost is None else checked_cost(self.cost), response=self.response())


def given(**fields: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def of_limits(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers that speak of limits, names in lower case, several values joined as in HTTP."""
    found: dict[str, str] = {}
    for name, value in headers:
        lower = name.lower()
        if speaks_of_limits(lower):
            found[lower] = f"{found[lower]}, {value}" if lower in found else str(value)
    fitting = {name: value for name, value in found.items() if len(value) <= MAX_HEADER_VALUE}
    return dict(list(fitting.items())[:MAX_HEADERS])


def outcome_of(result: object) -> Outcome:
    """The outcome of what a call has returned or raised.

    Understands `Outcome`, a pair of an `Outcome` and a value, a status as an `int`, and every
    object with `status_code` or `status` and `headers`: responses of requests, httpx, aiohttp and
    urllib. For an exception with a `response`, the response counts. Anything else was a call
    without a known answer.

    Example:
        >>> outcome_of(200).status, outcome_of((Outcome(429), "body")).is_throttled
        (200, True)
        >>> outcome_of("a body").status is None
        True
    """
    return _told(result) or Outcome()


def _told(result: object) -> Outcome | None:
    if isinstance(result, Outcome):
        return result
    if isinstance(result, tuple) and result and isinstance(result[0], Outcome):
        return result[0]
    if isinstance(result, int) and not isinstance(result, bool) and 100 <= result <= 999:
        return Outcome(result)
    if isinstance(result, BaseException) and (response := getattr(result, "response", None)) is not None:
        return _told(response)
    status = getattr(result, "status_code", None)
    if status is None:
        status = getattr(result, "status", None)
    headers = getattr(result, "headers", None)
    if not isinstance(status, int) or isinstance(status, bool):
        return None
    return Outcome(int(status), _merged(headers), code=code_of(result))


def checked_outcome(response: object) -> Outcome:
    """The outcome that a program reports: nothing, an error, or an object with an outcome.

    Raises:
        InvalidArgument: If it shows no outcome, such as a body.
    """
    outcome = _told(response)
    if outcome is None and response is not None and not isinstance(response, BaseException):
        raise InvalidArgument(
            "settle takes a response of requests, httpx, aiohttp or urllib, a status, a rampmeter.Outcome, or "
            f"nothing, not {type(response).__name__}"
        )
    return outcome or Outcome()


def was_never_sent(error: object) -> bool:
    """Whether an error says that its request was not sent, because there was no connection.

    Example:
        >>> was_never_sent(ConnectionRefusedError(111, "Connection refused")), was_never_sent(TimeoutError())
        (True, False)
    """
    for _ in range(MAX_CAUSES):
        if not isinstance(error, BaseException):
            return False
        if not NEVER_SENT.isdisjoint(kind.__name__ for kind in type(error).__mro__):
            return True
        # Of urllib and urllib3; of the packages of OpenAI and Anthropic; of requests.
        error = getattr(error, "reason", None) or error.__cause__ or (error.args[0] if error.args else None)
    return False


def has_error(status: int, headers: Mapping[str, str]) -> bool:
    """Whether the body is read for the code of an error: it is short, as far as the headers tell."""
    length = headers.get("content-length", "0")
    is_short = length.isdigit() and int(length) <= MAX_ERROR_BODY
    is_error = status == THROTTLED or (status >= BAD_REQUEST and "json" in headers.get("content-type", ""))
    return is_error and is_short


def code_of(result: object) -> str | None:
    """The code of the error in a body that the program has already read, as JSON.

    Example:
        >>> code_of_body(b'{"error": {"code": 403, "status": "RESOURCE_EXHAUSTED"}}')
        'RESOURCE_EXHAUSTED'
    """
    body = getattr(result, "_content", None) or getattr(result, "_body", None)
    return code_of_body(body) if isinstance(body, bytes) else None


def code_of_body(body: bytes) -> str | None:
    """The most specific code in the shapes that APIs have for errors; nothing if there is none."""
    if len(body) > MAX_ERROR_BODY or (b"error" not in body and b"__type" not in body):
        return None
    try:
        told = json.loads(body)
    except ValueError:
        return None
    return next(filter(None, map(_code_in, _errors(told))), None)


def _errors(told: object) -> Iterator[Any]:
    """The objects that may have a code, the most specific first."""
    if isinstance(told, dict):
        error, several = told.get("error"), told.get("errors")
        for list_ in (error.get("errors") if isinstance(error, dict) else None, several):
            yield from list_[:1] if isinstance(list_, list) else ()
        yield error
        yield told


def _code_in(error: Any) -> str | None:
    if isinstance(error, str):
        return error if error.isidentifier() else None
    if not isinstance(error, dict):
        return None
    extensions = error.get("extensions")
    named = [error.get(name) for name in ("code", "reason", "type", "status", "__type")]
    named.insert(0, extensions.get("code") if isinstance(extensions, dict) else None)
    return next((code for code in named if isinstance(code, str) and code != "error"), None)


def _merged(headers: object) -> Mapping[str, str]:
    """All values of the headers, whichever of the usual classes holds them."""
    pairs = getattr(headers, "multi_items", None) or getattr(headers, "items", None)
    return of_limits(pairs()) if callable(pairs) else {}
