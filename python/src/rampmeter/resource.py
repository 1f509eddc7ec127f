"""One account of an API, with its limits."""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ._core.ask import Mode
from .asking import Asking
from .cost import Cost, checked_cost, checked_labels, checked_name
from .errors import InvalidArgument
from .outcome import outcome_of
from .permit import Permit
from .repetition import Repetition

if TYPE_CHECKING:
    from .client import Client

LOG = logging.getLogger("rampmeter")
AT_ONCE: Final = 5.0
"""Seconds for the answer to a request that does not wait. A late yes or no is worth little."""

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class Resource:
    """One upstream account. Cheap; threads, tasks and pickles may share it.

    All methods that ask take the same options:

    * `class_`: the priority class; the resource's default where it is missing.
    * `labels`: strings that limits match on and key by, and that fair sharing uses.
    * `max_wait`: the longest wait in seconds, until the start of the call; without it no bound,
      and with 0 the call starts now or never.
    * `age`: seconds for which the call has waited elsewhere: it takes its place accordingly.
    * `left`: whether the permit tells what its limits have left.
    """

    def __init__(self, client: Client, name: str, defaults: Mapping[str, Any] | None = None) -> None:
        self._client = client
        self._name = checked_name("resource", name)
        self._defaults = dict(defaults or {})

    @property
    def name(self) -> str:
        """The resource's name, as schedulers know it."""
        return self._name

    @property
    def client(self) -> Client:
        """The connection."""
        return self._client

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of all its requests."""
        return dict(self._defaults.get("labels", {}))

    def with_options(
        self,
        *,
        class_: str | None = None,
        labels: Mapping[str, str] | None = None,
        max_wait: float | None = None,
    ) -> Resource:
        """The same resource, with other defaults for these options."""
        given = {"class_": class_, "labels": labels, "max_wait": max_wait}
        checked_wait(max_wait)
        chosen = {name: value for name, value in given.items() if value is not None}
        return Resource(self._client, self._name, {**self._defaults, **chosen})

    def permit(
        self,
        cost: Cost | None = 1,
        *,
        class_: str | None = None,
        labels: Mapping[str, str] | None = None,
        max_wait: float | None = None,
        age: float = 0.0,
        left: bool = False,
        price: Mapping[str, Any] | None = None,
    ) -> Asking:
        """A request that waits for its turn: `with hub.permit(…) as permit:`.

        With `price` the scheduler computes the cost from a request's body, if its configuration
        says so; `cost` is then ignored.

        Raises:
            InvalidArgument: If an option is invalid.
        """
        return self._asking("wait", cost, class_, labels, max_wait, age, left, price)

    def try_permit(
        self,
        cost: Cost | None = 1,
        *,
        class_: str | None = None,
        labels: Mapping[str, str] | None = None,
        left: bool = False,
    ) -> Asking:
        """A request for now or never: if it would have to wait, `NotInTime` says for how long."""
        return self._asking("allow", cost, class_, labels, 0.0, 0.0, left, None)

    def reserve(
        self,
        cost: Cost | None = 1,
        *,
        class_: str | None = None,
        labels: Mapping[str, str] | None = None,
        max_wait: float | None = None,
    ) -> Asking:
        """A request for a start, however far away: `permit = hub.reserve(cost).acquire()`.

        `permit.delay()` tells how long until then, and `permit.ready()` waits for it. No more is
        reserved ahead than the resource's `max_ahead`; beyond it `NotInTime` says when to ask.
        """
        return self._asking("reserve", cost, class_, labels, max_wait, 0.0, False, None)

    def run(self, cost: Cost | None, call: Callable[[], R], **options: Any) -> R:
        """Permit, wait, `call()`, settle; and the same again after a 429.

        `call` must be safe to repeat after a 429, whether it returns that or raises an error with
        such a `response`. Other errors are passed on; their calls count as made.

        Example:
            hub.run(1, lambda: requests.get(url), max_wait=60)

        Raises:
            Refused: If there is no permit (any more).
        """
        repetition = self.repetition(options.get("max_wait"))
        while True:
            permit = self.permit(cost, **{**options, **repetition.options(time.monotonic())}).acquire()
            repetition.granted(permit.since)
            try:
                result = call()
            except BaseException as error:
                if not self.settles_as_throttled(permit, error) or not isinstance(error, Exception):
                    raise
                continue
            if not self.settles_as_throttled(permit, result):
                return result
            if callable(close := getattr(result, "close", None)):
                close()

    async def arun(self, cost: Cost | None, call: Callable[[], Awaitable[R]], **options: Any) -> R:
        """The same for tasks: `await hub.arun(1, lambda: client.get(url))`."""
        repetition = self.repetition(options.get("max_wait"))
        while True:
            now = repetition.options(time.monotonic())
            permit = await self.permit(cost, **{**options, **now}).aacquire()
            repetition.granted(permit.since)
            try:
                result = await call()
            except BaseException as error:
                if not self.settles_as_throttled(permit, error) or not isinstance(error, Exception):
                    raise
                continue
            if not self.settles_as_throttled(permit, result):
                return result
            if callable(close := getattr(result, "aclose", None) or getattr(result, "close", None)):
                closing = close()
                if inspect.isawaitable(closing):
                    await closing

    def limited(self, cost: Cost | Callable[..., Cost] | None = 1, **options: Any) -> Callable[[F], F]:
        """A decorator: every call of the function is a `run` or an `arun`.

        A `cost` that is a function gets the arguments of the call.

        Example:
            @hub.limited(cost=lambda prompt: {"requests": 1, "tokens": len(prompt) // 4})
            def ask(prompt: str) -> requests.Response: ...
        """

        def decorate(function: F) -> F:
            def cost_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Cost | None:
                return cost(*args, **kwargs) if callable(cost) else cost

            @functools.wraps(function)
            def limited(*args: Any, **kwargs: Any) -> Any:
                return self.run(cost_of(args, kwargs), lambda: function(*args, **kwargs), **options)

            @functools.wraps(function)
            async def alimited(*args: Any, **kwargs: Any) -> Any:
                return await self.arun(cost_of(args, kwargs), lambda: function(*args, **kwargs), **options)

            return cast(F, alimited if inspect.iscoroutinefunction(function) else limited)

        return decorate

    def _asking(
        self,
        mode: Mode,
        cost: Cost | None,
        class_: str | None,
        labels: Mapping[str, str] | None,
        max_wait: float | None,
        age: float,
        left: bool,
        price: Mapping[str, Any] | None,
    ) -> Asking:
        fields: dict[str, Any] = {"mode": mode}
        if price is not None:
            fields["price"] = dict(price)
        else:
            fields["cost"] = checked_cost(1 if cost is None else cost)
        if (chosen := class_ or self._defaults.get("class_")) is not None:
            fields["class"] = checked_name("class", chosen)
        if all_labels := {**self._defaults.get("labels", {}), **(labels or {})}:
            fields["labels"] = checked_labels(all_labels)
        if left:
            fields["left"] = True
        wait = self._defaults.get("max_wait") if max_wait is None else max_wait
        checked_wait(wait)
        if not isinstance(age, Real) or not 0 <= age < float("inf"):
            raise InvalidArgument(f"age is a number of seconds from 0 on, not {age!r}")
        if wait == 0 and mode == "wait":
            fields["mode"] = "allow"
        return Asking(self._client, self._name, fields, AT_ONCE if wait == 0 else wait, age)

    def repetition(self, max_wait: float | None = None) -> Repetition:
        """What one call and its repetitions share, from now on."""
        wait = self._defaults.get("max_wait") if max_wait is None else max_wait
        return Repetition(checked_wait(wait), time.monotonic())

    def settles_as_throttled(self, permit: Permit, result: object) -> bool:
        """Settles a permit with a call's result or error. Whether that was a 429."""
        outcome = outcome_of(result)
        permit.settle(outcome)
        if outcome.is_throttled:
            LOG.warning("the upstream of %r answered 429; asking for a new permit", self._name)
        return outcome.is_throttled

    def __dask_tokenize__(self) -> tuple[object, ...]:
        """What Dask names tasks by. It shows no token."""
        return type(self).__qualname__, self._client.__dask_tokenize__(), self._name, self._defaults

    def __repr__(self) -> str:
        return f"<Resource {self._name!r} of {self._client!r}>"


def checked_wait(wait: float | None) -> float | None:
    """The longest wait, if it is one.

    Raises:
        InvalidArgument: If it is invalid.
    """
    if wait is not None and (not isinstance(wait, Real) or not wait >= 0):
        raise InvalidArgument(f"max_wait is a number of seconds from 0 on, not {wait!r}")
    return wait
