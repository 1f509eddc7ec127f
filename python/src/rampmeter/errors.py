"""Why there is no permit.

Every error derives from `RampmeterError` and says what to do. None shows a token.

Example:
    >>> issubclass(NotInTime, TimeoutError) and issubclass(NotInTime, Refused)
    True
"""

from __future__ import annotations

from typing import Any


class RampmeterError(Exception):
    """The root of all errors of this package. `type(error)(*error.args)` makes an equal one."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.args == getattr(other, "args", None)

    def __hash__(self) -> int:
        return hash((type(self), self.args))

    def __reduce__(self) -> tuple[type[RampmeterError], tuple[object, ...]]:
        return type(self), self.args


class InvalidArgument(RampmeterError, ValueError):
    """An argument that no scheduler would accept. Nothing was sent, and nothing is charged."""


class Refused(RampmeterError):
    """The scheduler has refused the request. Nothing is charged.

    Attributes:
        code: The reason for programs, such as `unknown_unit` (docs/protocol.md lists all codes).
        message: The reason for people.
        retry_after: Seconds after which asking again is of use; `None` if it is of no use.
        limited_by: The limit in the way, if there is one.
        response: The upstream's last response, if a call was answered 429 and is not repeated for
            this refusal. A pickle does not hold it.
    """

    def __init__(
        self, code: str, message: str, retry_after: float | None = None, limited_by: str | None = None
    ) -> None:
        super().__init__(code)
        # An OSError keeps no more than two of several arguments.
        self.args = code, message, retry_after, limited_by
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.limited_by = limited_by
        self.response: Any = None

    def __str__(self) -> str:
        hint = "" if self.retry_after is None else f"; ask again in {self.retry_after:.3g} s"
        return f"{self.code}: {self.message}{hint}"


class NotInTime(Refused, TimeoutError):
    """The call could not start within `max_wait`: the scheduler has said so, or time is over."""


class Unreachable(RampmeterError, ConnectionError):
    """No scheduler answers, and the policy is not to wait.

    Attributes:
        retry_after: Seconds after which to ask again.
    """

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.args = message, retry_after
        self.retry_after = retry_after

    def __str__(self) -> str:
        return str(self.args[0])


class Unauthorized(RampmeterError):
    """The token is missing or wrong. Waiting does not help."""


class NotRampmeter(RampmeterError):
    """Something else than Rampmeter answers at the address, or nothing can ever answer there."""


class TlsError(RampmeterError):
    """The server cannot be trusted, or refuses to be spoken to."""


class Closed(RampmeterError):
    """The client was closed."""
