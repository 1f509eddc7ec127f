"""What carries messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .._core.answer import Answer
from .._core.ask import Failure, Reply


class Transport(Protocol):
    """Carries messages for the threads of a process, or for one event loop.

    For threads, its coroutines block instead of waiting for a loop, and many may run at once.
    """

    unsent: deque[tuple[str, dict[str, Any]]]
    """Settles that wait to be sent with the next message."""

    async def ask(self, resource: str, message: Mapping[str, Any], until: float) -> Reply | Failure:
        """The last answer to a request, or why there is none in time."""

    async def settle(self, resource: str, settles: Sequence[Mapping[str, Any]]) -> list[Answer] | Failure:
        """The answers to settles, or why there are none."""

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Sends a settle without waiting, and again if it may not have arrived."""

    async def flush(self, within: float) -> None:
        """Sends what waits to be sent."""

    async def close(self) -> None:
        """Ends all connections."""
