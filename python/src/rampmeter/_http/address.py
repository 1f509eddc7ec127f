"""Where a Rampmeter is."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import urlsplit

from ..errors import InvalidArgument, TlsError


@dataclass(frozen=True)
class Address:
    """The address of an HTTP front. Its representation shows no token.

    Example:
        >>> Address.parse("http://127.0.0.1:9480", token="secret")
        Address(secure=False, host='127.0.0.1', port=9480, path='')
        >>> Address.parse("127.0.0.1:9480")
        Traceback (most recent call last):
        rampmeter.errors.InvalidArgument: '127.0.0.1:9480' is no address: write http://HOST:PORT, \
https://HOST:PORT or nats://HOST:PORT
    """

    secure: bool
    host: str
    port: int
    path: str
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = field(default=None, repr=False)

    @staticmethod
    def parse(url: str, token: str | None = None, ca_file: str | None = None) -> Address:
        """The address that `url` names.

        Raises:
            InvalidArgument: If `url` is no address, or holds a password: that belongs into `token`.
            TlsError: If the file of authorities cannot be used.
        """
        parts = urlsplit(url)
        if parts.username or parts.password:
            raise InvalidArgument("an address with a user or a password is not taken: give rampmeter.connect a token=")
        try:
            port = parts.port
        except ValueError:
            port = 0
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.query:
            raise InvalidArgument(
                f"{url!r} is no address: write http://HOST:PORT, https://HOST:PORT or nats://HOST:PORT"
            )
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
            raise InvalidArgument("the token has characters that no header may have, such as the end of a line")
        secure = parts.scheme == "https"
        path, default = parts.path.rstrip("/"), 443 if secure else 80
        address = Address(secure, parts.hostname, port or default, path, token, ca_file)
        _ = address.tls
        return address

    @property
    def url(self) -> str:
        """The address for people."""
        return f"http{'s' if self.secure else ''}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        """The host and the port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @cached_property
    def head(self) -> bytes:
        """The header lines that all requests share."""
        lines = f"Host: {self.authority}\r\nContent-Type: application/json\r\n"
        return (lines + (f"Authorization: Bearer {self.token}\r\n" if self.token else "")).encode()

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        """How its certificate is checked."""
        if not self.secure:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise TlsError(f"the authorities in {self.ca_file!r} can't be read: {error}") from error
