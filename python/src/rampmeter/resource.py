"""One account of an API, with its limits."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, TypeVar, overload

from ._core.ask import Mode
from ._drive.blocking import at_once, blocking
from ._drive.spans import TRACEPARENT, WRITTEN
from .asking import Asking, OnWait
from .cost import (
    Cost,
    Way,
    checked_accounts,
    checked_cost,
    checked_labels,
    checked_name,
    checked_seconds,
    checked_ways,
)
from .errors import InvalidArgument
from .permit import On429
from .repetition import REPEATS, NotCalled, Repetition

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .client import Client

AT_ONCE: Final = 5.0
"""Seconds for the answer to a request that does not wait. A late yes or no is worth little."""

NO_CALL: Final = "a coroutine needs `await hub.arun(…)`, and a generator `with hub.permit(…)` inside of it"

CostOf: TypeAlias = "Callable[[Any], Cost] | Callable[[Any, Any], Cost]"
"""The cost from the arguments of a function. Pyright knows those of a `lambda` by their number only."""

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class Defaults(TypedDict, total=False):
    """What a resource has defaults for, as `Resource` explains it."""

    class_: str | None
    labels: Mapping[str, str] | None
    not_accounts: Collection[str]
    max_wait: float | None
    on_wait: OnWait | None
    on_429: On429 | None


class PermitOptions(TypedDict, total=False):
    """The options of a permit, as `Resource` explains them."""

    class_: str | None
    labels: Mapping[str, str] | None
    not_accounts: Collection[str]
    worth: float
    or_: Sequence[Way]
    max_wait: float | None
    timeout: float | None
    age: float
    left: bool
    price: Mapping[str, Any] | None
    traceparent: str | None


class RunOptions(PermitOptions, total=False):
    """The options of `Resource.run` and of what is like it: `repeats` is how often a 429 is repeated."""

    repeats: int


class Resource:
    """An API with its limits, and one account or several. Cheap; threads, tasks and pickles may share it.

    All methods that ask take the same options:

    * `class_`: the priority class; the resource's default where it is missing.
    * `labels`: strings that limits match on and key by, and that fair sharing uses.
    * `not_accounts`: the accounts that may not make the call, for example after a 401, beside those
      that the resource excludes.
    * `or_`: other ways to make the call, the preferred first, such as `[{"labels": {"model": "small"}}]`
      (`Way`), and `worth`: the seconds that a start as described is worth waiting for. The first way
      that starts in its time is taken, or else the earliest; `permit.way` tells which.
    * `max_wait`: the longest wait in seconds, until the start of the call; without it no bound,
      and with 0 the call starts now or never. `timeout` is another name for it.
    * `age`: seconds for which the call has waited elsewhere: it takes its place accordingly.
    * `left`: whether the permit tells what its limits have left.
    * `traceparent`: the span that the call is for, as W3C Trace Context writes it. If OpenTelemetry
      is installed, that is the current span.

    Beside `class_`, `labels`, `not_accounts` and `max_wait` a resource has two hooks. They are called
    in the thread or task of the call, and have to return soon; their errors are logged.

    * `on_wait(permit)`: a limit has delayed the call (`permit.waited`, `permit.limited_by`), which
      starts now.
    * `on_429(permit, outcome)`: the upstream has answered 429.
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

    def with_options(self, **defaults: Unpack[Defaults]) -> Resource:
        """The same resource, with other defaults: `class_`, `labels`, `not_accounts`, `max_wait`, and the hooks."""
        if unknown := defaults.keys() - Defaults.__annotations__.keys():
            raise TypeError(f"a resource has defaults for {', '.join(Defaults.__annotations__)}, not {unknown}")
        checked_wait(defaults.get("max_wait"))
        chosen = {name: value for name, value in defaults.items() if value is not None}
        return Resource(self._client, self._name, {**self._defaults, **chosen})

    def permit(self, cost: Cost | None = 1, **options: Unpack[PermitOptions]) -> Asking:
        """A request that waits for its turn: `with hub.permit(…) as permit:`.

        With `price` the scheduler computes the cost from a request's body, if its configuration
        says so; `cost` is then ignored.

        Raises:
            InvalidArgument: If an option is invalid.
        """
        return self._asking("wait", cost, **options)

    def try_permit(self, cost: Cost | None = 1, **options: Unpack[PermitOptions]) -> Asking:
        """A request for now or never: if it would have to wait, `NotInTime` says for how long."""
        options["max_wait"] = 0.0
        return self._asking("allow", cost, **options)

    def reserve(self, cost: Cost | None = 1, **options: Unpack[PermitOptions]) -> Asking:
        """A request for a start, however far away: `permit = hub.reserve(cost).acquire()`.

        `permit.delay()` tells how long until then, and `permit.ready()` waits for it. No more is
        reserved ahead than the resource's `max_ahead`; beyond it `NotInTime` says when to ask.
        """
        return self._asking("reserve", cost, **options)

    def run(self, cost: Cost | None, call: Callable[[], R], **options: Unpack[RunOptions]) -> R:
        """Permit, wait, `call()`, settle; and all of it again after a 429.

        `call` must be safe to repeat after a 429, whether it returns that or raises an error with
        such a `response`. Other errors are passed on; their calls count as made, unless there was no
        connection. After `repeats` repetitions (3), or if no wait mends the 429, the caller gets it.

        Example:
            hub.run(1, lambda: requests.get(url), max_wait=60)

        Raises:
            Refused: If there is no permit (any more). `response` is that of the last call.
            InvalidArgument: If `call` is a function for `arun`, or a generator.
        """
        repetition = self.repetition(cost, options)
        made = at_once(lambda: checked_result(call()))
        result: R = blocking(repetition.run(at_once(repetition.acquire), made, at_once(close)))
        return result

    async def arun(self, cost: Cost | None, call: Callable[[], Awaitable[R]], **options: Unpack[RunOptions]) -> R:
        """What `run` is, for tasks: `await hub.arun(1, lambda: client.get(url))`."""
        repetition = self.repetition(cost, options)
        return await repetition.run(repetition.aacquire, call, aclose)

    @overload
    def limited(self, function: F, /) -> F: ...

    @overload
    def limited(self, *, cost: Cost | CostOf | None = 1, **options: Unpack[RunOptions]) -> Callable[[F], F]: ...

    # For functions with arguments by name, which mypy takes for the same.
    @overload
    def limited(  # type: ignore[overload-cannot-match]
        self, *, cost: Callable[..., Cost], **options: Unpack[RunOptions]
    ) -> Callable[[F], F]: ...

    def limited(self, function: Any = None, /, *, cost: Any = 1, **options: Any) -> Any:  # type: ignore[misc]
        """A decorator, with or without brackets: every call of the function is a `run` or an `arun`.

        A `cost` that is a function gets the arguments of the call.

        Example:
            @hub.limited(cost=lambda prompt: {"requests": 1, "tokens": len(prompt) // 4})
            def ask(prompt: str) -> requests.Response: ...

        Raises:
            InvalidArgument: If it is no function, or a generator, whose work begins after its call.
        """
        if function is None:
            return functools.partial(self._decorated, cost=cost, **options)
        return self._decorated(function, cost, **options)

    def _decorated(self, function: Any, cost: Any, **options: Any) -> Any:
        if not callable(function):
            raise InvalidArgument(f"limited decorates a function, not {function!r}: write limited(cost=…)")
        # Of an object that can be called, its method.
        kinds = (function, getattr(function, "__call__", None))  # noqa: B004
        if any(inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind) for kind in kinds):
            raise InvalidArgument(f"limited takes no generator such as {function!r}; {NO_CALL}")

        def cost_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Cost | None:
            given: Cost | None = cost(*args, **kwargs) if callable(cost) else cost
            return given

        @functools.wraps(function)
        def limited(*args: Any, **kwargs: Any) -> Any:
            return self.run(cost_of(args, kwargs), lambda: function(*args, **kwargs), **options)

        @functools.wraps(function)
        async def alimited(*args: Any, **kwargs: Any) -> Any:
            return await self.arun(cost_of(args, kwargs), lambda: function(*args, **kwargs), **options)

        return alimited if any(map(inspect.iscoroutinefunction, kinds)) else limited

    def _asking(
        self,
        mode: Mode,
        cost: Cost | None,
        *,
        class_: str | None = None,
        labels: Mapping[str, str] | None = None,
        not_accounts: Collection[str] = (),
        worth: float = 0.0,
        or_: Sequence[Way] = (),
        max_wait: float | None = None,
        timeout: float | None = None,
        age: float = 0.0,
        left: bool = False,
        price: Mapping[str, Any] | None = None,
        traceparent: str | None = None,
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
        if excluded := checked_accounts(self._defaults.get("not_accounts", ())) + checked_accounts(not_accounts):
            fields["not"] = excluded
        if seconds := checked_seconds("worth", worth):
            fields["else_after_ms"] = 1000 * seconds
        if ways := checked_ways(or_):
            fields["any_of"] = ways
        if left:
            fields["left"] = True
        if traceparent is not None and WRITTEN.fullmatch(traceparent):
            fields[TRACEPARENT] = traceparent
        longest = self._longest(max_wait, timeout)
        if longest == 0 and mode == "wait":
            fields["mode"] = "allow"
        hooks = self._defaults.get("on_wait"), self._defaults.get("on_429")
        wait = AT_ONCE if longest == 0 else longest
        return Asking(self._client, self._name, fields, wait, checked_seconds("age", age), *hooks)

    def _longest(self, max_wait: float | None, timeout: float | None) -> float | None:
        if max_wait is not None and timeout is not None:
            raise InvalidArgument("max_wait and timeout are the same: give one of them")
        given = timeout if max_wait is None else max_wait
        return checked_wait(self._defaults.get("max_wait") if given is None else given)

    def repetition(self, cost: Cost | None, options: RunOptions) -> Repetition:
        """One call and its repetitions, from now on."""
        given: dict[str, Any] = {**options}
        repeats = given.pop("repeats", REPEATS)
        most = self._longest(given.pop("max_wait", None), given.pop("timeout", None))

        def asking(more: dict[str, float]) -> Asking:
            return self.permit(cost, **{**given, **more})

        return Repetition(asking, most, repeats)

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


def checked_result(result: R) -> R:
    """The result of a call that was made.

    Raises:
        InvalidArgument: If the call only begins when somebody waits for the result or reads it.
    """
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        close(result)
        raise NotCalled(f"run takes a function that makes the call; {NO_CALL}")
    return result


def close(result: object) -> object:
    """Closes a response that no caller gets. For some, what `close` returns is to be awaited."""
    method = getattr(result, "close", None)
    return method() if callable(method) else None


async def aclose(result: object) -> None:
    """Closes a response of a task that no caller gets."""
    closing = result.aclose() if hasattr(result, "aclose") else close(result)
    if inspect.isawaitable(closing):
        await closing
