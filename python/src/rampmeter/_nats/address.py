"""Where the NATS servers are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ..cost import checked_name
from ..errors import InvalidArgument


@dataclass(frozen=True)
class NatsAddress:
    """One or several servers. Its representation shows no password.

    Example:
        >>> NatsAddress.parse(["nats://me:secret@127.0.0.1:4222"], None, None, {}, "rampmeter").url
        'nats://127.0.0.1:4222'
    """

    servers: tuple[str, ...] = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    ca_file: str | None = field(repr=False)
    prefix: str
    url: str

    @staticmethod
    def parse(
        urls: Sequence[str], token: str | None, ca_file: str | None, options: Mapping[str, Any], prefix: str
    ) -> NatsAddress:
        """The servers at `urls`.

        Raises:
            InvalidArgument: If one is no address.
        """
        servers = tuple(server.strip() for server in urls)
        shown = []
        for server in servers:
            parts = urlsplit(server)
            try:
                host = parts.hostname and f"{parts.hostname}:{parts.port or 4222}"
            except ValueError:
                host = None
            if parts.scheme not in ("nats", "tls") or not host:
                raise InvalidArgument(
                    "an address of NATS is nats://HOST:PORT or tls://HOST:PORT, commas between several"
                )
            shown.append(f"{parts.scheme}://{host}")
        given: dict[str, Any] = {"token": token} if token is not None else {}
        if inboxes := os.environ.get("RAMPMETER_INBOX_PREFIX"):
            given["inbox_prefix"] = inboxes
        return NatsAddress(servers, {**given, **options}, ca_file, checked_name("prefix", prefix), ",".join(shown))

    @staticmethod
    def is_meant(url: str) -> bool:
        """Whether `url` is of NATS, and not of HTTP."""
        return url.startswith(("nats:", "tls:"))
