"""Permits for sentinelhub-py: one line, `rampmeter.sentinelhub.install(hub)`.

Example:
    hub = rampmeter.connect("http://127.0.0.1:9480").resource("sentinel-hub")
    rampmeter.sentinelhub.install(hub)
    SentinelHubRequest(…).get_data()                    # as before, and never told 429
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from requests import Response
from sentinelhub.download.models import DownloadRequest
from sentinelhub.download.rate_limit import SentinelHubRateLimit
from sentinelhub.download.sentinelhub_client import SentinelHubDownloadClient

from .cost import Cost
from .outcome import Outcome, outcome_of
from .resource import Resource

PIXELS = 512 * 512
"""The area of one processing unit with three bands."""

LEAST = 0.005
"""No request takes fewer processing units."""


def install(
    resource: Resource,
    cost: Cost | Callable[[DownloadRequest], Cost] | None = None,
    *,
    pricing: bool = False,
    class_: str | None = None,
    max_wait: float | None = None,
) -> Callable[[], None]:
    """Has every download client of this process ask for permits. Its own pacing is switched off.

    Call it once, before processes are forked or in each worker. The answer's header tells what a
    request has really taken, and settles it.

    Args:
        resource: The account that the requests are charged to.
        cost: What a request costs, or a function of the request; by default the area of its result.
        pricing: Has the scheduler price the request's body; its resource needs
            `pricing = "sentinel-hub"`.
        class_: The priority class.
        max_wait: The longest wait in seconds, over all repetitions.

    Returns:
        A function that undoes it.
    """
    download, pace = SentinelHubDownloadClient._do_download, SentinelHubRateLimit.register_next

    def limited(client: SentinelHubDownloadClient, request: DownloadRequest) -> Response:
        options = options_of(request, cost, pricing, class_, max_wait)
        return resource.run(call=lambda: told(download(client, request)), **options)[1]

    def unpaced(_: SentinelHubRateLimit) -> float:
        return 0.0

    clients: Any = SentinelHubDownloadClient
    paces: Any = SentinelHubRateLimit

    def undo() -> None:
        clients._do_download, paces.register_next = download, pace

    clients._do_download, paces.register_next = limited, unpaced
    return undo


class _Limited:
    """What both client classes add: permits of the resource that is set on them."""

    resource: Resource
    cost: Cost | Callable[[DownloadRequest], Cost] | None = None
    pricing: bool = False
    max_wait: float | None = None
    rate_limit: SentinelHubRateLimit

    def _do_download(self, request: DownloadRequest) -> Response:
        self.rate_limit.wait_time = 0
        options = options_of(request, self.cost, self.pricing, None, self.max_wait)
        call: Callable[[DownloadRequest], Response] = super()._do_download  # type: ignore[misc]
        return self.resource.run(call=lambda: told(call(request)), **options)[1]


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


def told(response: Response) -> tuple[Outcome, Response]:
    """The response, and what schedulers learn from it: a 403 alone is no spent quota."""
    return outcome_of(response), response


def options_of(
    request: DownloadRequest,
    cost: Cost | Callable[[DownloadRequest], Cost] | None,
    pricing: bool,
    class_: str | None,
    max_wait: float | None,
) -> dict[str, Any]:
    """The options of `Resource.run` for one request."""
    options: dict[str, Any] = {"cost": None, "class_": class_, "max_wait": max_wait}
    api = api_of(request)
    if pricing and api is not None:
        options["price"] = {"kind": "sentinel-hub", "api": api, "body": request.post_values}
    elif cost is not None:
        options["cost"] = cost(request) if callable(cost) else cost
    else:
        options["cost"] = {"requests": 1, "processing-units": area_of(request)} if api else {"requests": 1}
    return options


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
