"""Permits for calls of rate-limited APIs, so that no worker is told 429.

Example:
    hub = rampmeter.connect("http://127.0.0.1:9480").resource("sentinel-hub")
    with hub.permit({"requests": 1, "processing-units": 2.5}, max_wait=30) as permit:
        permit.settle(requests.post(url, json=body))
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from .asking import Asking
from .client import Client
from .cost import Cost, Way
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

if TYPE_CHECKING:
    from . import aiohttp as aiohttp
    from . import anthropic as anthropic
    from . import httpx as httpx
    from . import openai as openai
    from . import requests as requests
    from . import sentinelhub as sentinelhub
    from . import testing as testing

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
    "Way",
    "connect",
]


ADAPTERS: Final = ("aiohttp", "anthropic", "httpx", "openai", "requests", "sentinelhub", "testing")
"""Modules that are imported when they are named first, because each needs the package that it is for."""


def __getattr__(name: str) -> ModuleType:
    if name in ADAPTERS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def connect(
    url: str | Sequence[str] | None = None,
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
            `nats://HOST:PORT` (`pip install 'rampmeter[nats]'`). Of several, in a list or with commas
            between them, another one is asked when one fails. Without any, the environment's
            `RAMPMETER_URL`.
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
    secrets = {"token": token, "ca_file": ca_file}
    options = {**secrets, "unreachable": unreachable, "nats_options": nats_options, "prefix": prefix}
    return Client(os.environ.get("RAMPMETER_URL", "") if url is None else url, options)
