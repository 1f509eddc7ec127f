"""What a response of the front means, and what a fault of the connection means."""

from __future__ import annotations

import socket
import ssl

from .._core.answer import Answer, answers_in
from .._core.ask import Failure
from ..errors import InvalidArgument, NotRampmeter, RampmeterError, TlsError, Unauthorized
from .address import Address
from .connection import NotConnected
from .message import NotHttp, Response

AGAIN = frozenset([408, 425, 429, 500, 502, 503, 504])
"""Statuses of proxies and of a front that stops: another attempt may fare better."""


def answers_of(address: Address, response: Response) -> list[Answer] | Failure:
    """The answers in a response, or why there are none and another attempt is of use.

    Raises:
        RampmeterError: If another attempt is useless.
    """
    if answers := answers_in(response.body):
        return answers
    said = response.body[:300].decode("utf-8", "replace").strip()
    if response.status in AGAIN:
        return Failure(f"{address.url} answers {response.status}: {said}", is_hangup=True)
    if response.status == 401:
        raise Unauthorized(
            f"{address.url} asks for a token: give rampmeter.connect the token= that its configuration names ({said})"
        )
    if response.status == 413:
        raise InvalidArgument(f"{address.url} takes no request of this size ({said}); make it smaller")
    if response.status in (403, 415, 421):
        raise NotRampmeter(f"{address.url} refuses this client: {said}")
    where = f", and points to {response.location}" if response.location else ""
    raise NotRampmeter(
        f"{address.url} is no Rampmeter: it answers {response.status}{where}; give rampmeter.connect the address that "
        "`rampmeter serve` listens at ([http] listen)"
    )


def fault(address: Address, error: Exception) -> Failure:
    """Why there was no response, if another attempt is of use.

    Raises:
        RampmeterError: If another attempt is useless.
    """
    is_hangup = not isinstance(error, NotConnected)
    if isinstance(error, NotConnected) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, RampmeterError):
        raise error
    if isinstance(error, NotHttp):
        hint = "a NATS server: write nats://" if str(error).startswith("INFO {") else "no HTTP server"
        raise NotRampmeter(f"{address.url} is {hint}; it says {str(error)!r}")
    if isinstance(error, ssl.SSLCertVerificationError):
        raise TlsError(
            f"the certificate of {address.url} is not trusted: {error.verify_message}; give rampmeter.connect the "
            "ca_file= of its authority"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        raise TlsError(f"{address.url} speaks no TLS that this client understands: {error.reason or error}")
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME:
        raise NotRampmeter(f"no host has the name {address.host!r}; check the address given to rampmeter.connect")
    return Failure(f"{address.url}: {str(error) or type(error).__name__}", is_hangup)
