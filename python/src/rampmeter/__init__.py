"""Permits for calls of rate-limited APIs, so that no worker is told 429.

Example:
    hub = rampmeter.connect("http://127.0.0.1:9480").resource("sentinel-hub")
    with hub.permit({"requests": 1, "processing-units": 2.5}, max_wait=30) as permit:
        permit.settle(requests.post(url, json=body))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .asking import Asking
from .client import Client
from .cost import Cost
from .counters import Stats
from .errors import (
    Closed,
    InvalidArgument,
    NotInTime,
    NotRampmeter,
    RampmeterError,
    Refused,
    TlsError,
    Unauthorized,
    Unreachable,
)
from .outcome import Outcome
from .permit import Permit
from .policy import Fail, Policy, SafeRate
from .resource import Resource

__version__ = "0.1.0"

__all__ = [
    "Asking",
    "Client",
    "Closed",
    "Cost",
    "Fail",
    "InvalidArgument",
    "NotInTime",
    "NotRampmeter",
    "Outcome",
    "Permit",
    "Policy",
    "RampmeterError",
    "Refused",
    "Resource",
    "SafeRate",
    "Stats",
    "TlsError",
    "Unauthorized",
    "Unreachable",
    "connect",
]


def connect(
    url: str,
    *,
    token: str | None = None,
    ca_file: str | None = None,
    unreachable: Policy = "wait",
    nats_options: Mapping[str, Any] | None = None,
    prefix: str = "rampmeter",
) -> Client:
    """A client of the schedulers at `url`. Nothing is sent before the first request.

    Args:
        url: `http://HOST:PORT` or `https://HOST:PORT`, where `rampmeter serve` listens; or
            `nats://HOST:PORT`, several with commas between them (`pip install 'rampmeter[nats]'`).
        token: What the front asks for, as its configuration names it.
        ca_file: The authorities (PEM) whose certificates count, instead of the system's.
        unreachable: What happens to requests while no scheduler answers. With `"wait"` they wait,
            with `"fail"` they fail after two seconds (`Fail(after=…)` after another time), and with
            a `SafeRate` they go on at a rate that is known to be safe.
        nats_options: What `nats.connect` takes besides, such as `user_credentials`.
        prefix: The first token of all subjects, as the schedulers' configuration names it.

    Raises:
        InvalidArgument: If an argument is invalid.
        TlsError: If `ca_file` cannot be used.

    Example:
        >>> connect("http://127.0.0.1:9480", token="a secret")
        <Client of http://127.0.0.1:9480>
    """
    options = {"token": token, "ca_file": ca_file, "unreachable": unreachable}
    return Client(url, {**options, "nats_options": nats_options, "prefix": prefix})
