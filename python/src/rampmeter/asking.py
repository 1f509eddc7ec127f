"""A request for a permit, with its options."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .permit import Permit

if TYPE_CHECKING:
    from .client import Client


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
    ) -> None:
        self._client = client
        self._resource = resource
        self._fields = fields
        self._max_wait = max_wait
        self._age = age
        self._permits: list[Permit] = []

    def acquire(self) -> Permit:
        """Waits for the permit and for its start. Its holder has to settle it.

        Raises:
            Refused: If the scheduler refuses the request; `NotInTime` if that is for time.
            Unreachable: If no scheduler answers, and the policy is not to wait.
        """
        threads = self._client._threads()
        grant = threads.acquire(self._resource, self._fields, self._age, self._max_wait)
        return Permit(threads, self._resource, self._fields, grant)

    async def aacquire(self) -> Permit:
        """The same for tasks. A cancelled wait costs nothing."""
        loop = self._client._loop()
        grant = await loop.acquire(self._resource, self._fields, self._age, self._max_wait)
        return Permit(loop, self._resource, self._fields, grant)

    def __enter__(self) -> Permit:
        permit = self.acquire()
        self._permits.append(permit)
        return permit

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._permits.pop()._close(error)

    async def __aenter__(self) -> Permit:
        permit = await self.aacquire()
        self._permits.append(permit)
        return permit

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._permits.pop()._close(error)
