"""A request for a permit, with its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ._drive.blocking import blocking
from ._drive.spans import in_span
from .permit import On429, Permit, call_hook

if TYPE_CHECKING:
    from ._drive.side import Side
    from .client import Client

OnWait: TypeAlias = "Callable[[Permit], object]"
"""Is called with a permit that a limit has delayed."""


class Asking:
    """A request that is sent when its block begins: `with …` in threads, `async with …` in tasks.

    The block is the call. At its end the permit is settled as used, unless the block has settled it
    or given it back. An exception with a `response`, such as `requests.HTTPError`, settles it with
    that. Each block asks anew.
    """

    def __init__(
        self,
        client: Client,
        resource: str,
        fields: Mapping[str, Any],
        max_wait: float | None,
        age: float,
        on_wait: OnWait | None,
        on_429: On429 | None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._fields = fields
        self._max_wait = max_wait
        self._age = age
        self._on_wait = on_wait
        self._on_429 = on_429
        self._permits: list[Permit] = []

    def acquire(self) -> Permit:
        """Waits for the permit and for its start. Its holder has to settle it.

        Raises:
            Refused: If the scheduler refuses the request; `NotInTime` if that is for time.
            Unreachable: If no scheduler answers, and the policy is not to wait.
        """
        return blocking(self._acquired(self._client._threads()))

    async def aacquire(self) -> Permit:
        """Waits in a task, as `acquire` does in a thread. A cancelled wait costs nothing."""
        return await self._acquired(self._client._loop())

    async def _acquired(self, side: Side) -> Permit:
        fields = in_span(self._fields)
        grant = await side.acquire(self._resource, fields, self._age, self._max_wait)
        permit = Permit(side, self._resource, fields, grant, self._on_429)
        if permit.limited_by is not None and permit.delay() == 0 and self._on_wait is not None:
            call_hook(self._on_wait, permit)
        return permit

    def __enter__(self) -> Permit:
        permit = self.acquire()
        self._permits.append(permit)
        return permit

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._permits.pop()._close(error)

    async def __aenter__(self) -> Permit:
        permit = await self.aacquire()
        self._permits.append(permit)
        return permit

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._permits.pop()._close(error)
