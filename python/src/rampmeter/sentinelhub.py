"""Permits for sentinelhub-py: one line, `rampmeter.sentinelhub.install(hub)`.

Example:
    hub = rampmeter.connect("http://127.0.0.1:9480").resource("sentinel-hub")
    rampmeter.sentinelhub.install(hub)
    SentinelHubRequest(…).get_data()                    # as before, and never told 429
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from requests import HTTPError, Response
from sentinelhub.download.models import DownloadRequest
from sentinelhub.download.rate_limit import SentinelHubRateLimit
from sentinelhub.download.sentinelhub_client import SentinelHubDownloadClient
from sentinelhub.exceptions import OutOfRequestsException

from .cost import Cost
from .errors import InvalidArgument
from .outcome import THROTTLED
from .resource import Resource

PIXELS = 512 * 512
"""The area of one processing unit with three bands."""

LEAST = 0.005
"""No request takes fewer processing units."""

Costs: TypeAlias = "Cost | Callable[[DownloadRequest], Cost] | None"
"""What a request costs, or a function of the request; by default the area of its result."""


class _Terms(NamedTuple):
    cost: Costs
    pricing: bool
    class_: str | None
    max_wait: float | None


ORIGINAL, ACCOUNT = "_rampmeter_original", "_rampmeter_account"
"""What an installed function has replaced, and the account that it asks."""


def install(
    resource: Resource,
    cost: Costs = None,
    *,
    pricing: bool = False,
    class_: str | None = None,
    max_wait: float | None = None,
) -> Callable[[], None]:
    """Has every download client of this process ask for permits. Its own pacing is switched off.

    Call it before processes are forked or in each worker, as often as you like: the last terms
    count. The answer's header tells what a request has really taken, and settles it.

    Args:
        resource: The account that the requests are charged to.
        cost: What a request costs, or a function of the request; by default the area of its result.
        pricing: Has the scheduler price the request's body; its resource needs
            `pricing = "sentinel-hub"`.
        class_: The priority class.
        max_wait: The longest wait in seconds, over all repetitions.

    Returns:
        A function that undoes it.

    Raises:
        InvalidArgument: If it is installed for another resource.
    """
    terms = _Terms(cost, pricing, class_, max_wait)
    clients: Any = SentinelHubDownloadClient
    paces: Any = SentinelHubRateLimit
    account = f"{resource.name!r} of {resource.client.url}"
    download, pace = original(clients._do_download), original(paces.register_next)
    if (known := getattr(clients._do_download, ACCOUNT, account)) != account:
        raise InvalidArgument(f"install: {known} has the calls of this process; undo that first, or use `client`")

    def limited(client: SentinelHubDownloadClient, request: DownloadRequest) -> Response:
        return called(resource, request, terms, lambda: download(client, request))

    def unpaced(_: SentinelHubRateLimit) -> float:
        return 0.0

    def undo() -> None:
        clients._do_download, paces.register_next = download, pace

    for function, below in ((limited, download), (unpaced, pace)):
        # On the functions, because a reloaded module has forgotten what it has replaced.
        setattr(function, ORIGINAL, below)
        setattr(function, ACCOUNT, account)
    clients._do_download, paces.register_next = limited, unpaced
    return undo


def original(function: Callable[..., Any]) -> Callable[..., Any]:
    """What an installation has replaced by this function; the function itself if that is not one."""
    below: Callable[..., Any] = getattr(function, ORIGINAL, function)
    return below


class _Limited:
    """What both client classes add: permits of the resource that is set on them."""

    resource: Resource
    cost: Costs = None
    pricing: bool = False
    max_wait: float | None = None
    rate_limit: SentinelHubRateLimit

    def _do_download(self, request: DownloadRequest) -> Response:
        self.rate_limit.wait_time = 0
        download = original(super()._do_download.__func__)  # type: ignore[misc]
        terms = _Terms(self.cost, self.pricing, None, self.max_wait)
        return called(self.resource, request, terms, lambda: download(self, request))


def client(resource: Resource, kind: type[SentinelHubDownloadClient] = SentinelHubDownloadClient, **terms: Any) -> Any:
    """A class of download clients that ask for permits, for programs that construct their own.

    Args:
        resource: The account that the requests are charged to.
        kind: The class to derive from, such as `SentinelHubStatisticalDownloadClient`.
        terms: `cost`, `pricing` and `max_wait`, as `install` takes them.
    """
    if callable(cost := terms.get("cost")):
        terms["cost"] = staticmethod(cost)
    return type(f"Limited{kind.__name__}", (_Limited, kind), {"resource": resource, **terms})


def called(resource: Resource, request: DownloadRequest, terms: _Terms, call: Callable[[], Response]) -> Response:
    """One request with its permits. A 429 that does not end is an error, which sentinelhub-py repeats for ever."""
    cost, price = asked_of(request, terms.cost, terms.pricing)
    response = resource.run(cost, call, class_=terms.class_, max_wait=terms.max_wait, price=price)
    if response.status_code == THROTTLED:
        error = HTTPError(response=response)
        message = f"Sentinel Hub answered 429 again and again: {response.text[:200]}"
        raise OutOfRequestsException(message, request_exception=error) from error
    return response


def asked_of(request: DownloadRequest, cost: Costs, pricing: bool) -> tuple[Cost | None, dict[str, Any] | None]:
    """What the request costs, or what the scheduler is to price."""
    api = api_of(request)
    if pricing and api is not None:
        return None, {"kind": "sentinel-hub", "api": api, "body": request.post_values}
    if cost is not None:
        return (cost(request) if callable(cost) else cost), None
    return ({"requests": 1, "processing-units": area_of(request)} if api else {"requests": 1}), None


def api_of(request: DownloadRequest) -> str | None:
    """The service that prices such a request in processing units, if one does."""
    last = (request.url or "").split("?")[0].rstrip("/").rsplit("/", 1)[-1]
    return {"process": "process", "statistics": "statistical"}.get(last)


def area_of(request: DownloadRequest) -> float:
    """The processing units of the result's area with three bands: an estimate."""
    body: dict[str, Any] = request.post_values or {}
    size = body.get("output") or body.get("aggregation") or {}
    pixels = float(size.get("width", 512)) * float(size.get("height", 512))
    return max(LEAST, pixels / PIXELS)
