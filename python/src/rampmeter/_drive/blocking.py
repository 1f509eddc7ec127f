"""One code for threads and tasks: a coroutine whose parts block, instead of waiting for an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


def blocking(work: Coroutine[Any, Any, R]) -> R:
    """The result of a coroutine of which every part was made by `at_once`.

    Example:
        >>> async def double(part):
        ...     return 2 * await part()
        >>> blocking(double(at_once(lambda: 21)))
        42
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: R = done.value
        return result
    raise AssertionError("a part of it has waited for an event loop")


def at_once(part: Callable[..., R]) -> Callable[..., Awaitable[R]]:
    """A function that blocks, as a part of such a coroutine."""

    async def awaited(*args: Any) -> R:
        return part(*args)

    return awaited
