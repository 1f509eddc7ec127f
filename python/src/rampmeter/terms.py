"""What all adapters do alike with a request and its response."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypedDict, cast

from .cost import Cost
from .errors import InvalidArgument
from .outcome import Outcome, has_error, outcome_of
from .permit import Permit
from .repetition import Repetition
from .resource import Resource, RunOptions

Labels: TypeAlias = "Mapping[str, str] | Callable[[Any], Mapping[str, str]] | None"
"""The labels of a request, or a function of the request."""


class Wanted(TypedDict, total=False):
    """What every adapter takes beside its resource.

    Attributes:
        cost: What a request costs: an amount, amounts by unit, or a function of the request; 1 by
            default.
        labels: The labels of a request, or a function of the request.
        not_accounts: The accounts that may not make a call.
        class_: The priority class.
        max_wait: The longest wait in seconds, over all repetitions.
        repeats: How often a request that is answered 429 is repeated, 3 times by default; then the
            caller gets the 429.
    """

    cost: Cost | Callable[[Any], Cost]
    labels: Labels
    not_accounts: Collection[str]
    class_: str | None
    max_wait: float | None
    repeats: int


class Terms:
    """The terms on which an adapter asks for permits."""

    def __init__(self, resource: Resource, wanted: Wanted) -> None:
        if unknown := wanted.keys() - Wanted.__annotations__.keys():
            raise InvalidArgument(f"an adapter takes {', '.join(Wanted.__annotations__)}, not {', '.join(unknown)}")
        self.resource = resource
        self._wanted = wanted

    def repetition(self, request: object) -> Repetition:
        """The permits of `request` and of its repetitions."""
        options: dict[str, Any] = {**self._wanted}
        cost, labels = options.pop("cost", 1), options.pop("labels", None)
        options["labels"] = labels(request) if callable(labels) else labels
        return self.resource.repetition(cost(request) if callable(cost) else cost, cast(RunOptions, options))


class Exchange(NamedTuple):
    """What a client of HTTP does for one request, in threads by `at_once`."""

    send: Callable[[], Awaitable[Any]]
    """Sends it, and returns the response."""
    read: Callable[[Any], Awaitable[Any]]
    """Reads the body of an error, which the caller can read again, and returns the response with it."""
    close: Callable[[Any], Awaitable[Any]]
    """Closes a response that no caller gets."""
    can_repeat: Callable[[], bool]
    """Whether the request's body can be sent again."""
    finish: Callable[[Permit, Outcome, Any], None]
    """Settles the permit of a response whose body is still to come."""
    told: Callable[[Any], Outcome] = outcome_of
    """What a response says about its call."""

    async def run(self, repetition: Repetition, acquire: Callable[[], Awaitable[Permit]]) -> Any:
        """The response for the caller, after its repetitions."""
        while True:
            permit = await acquire()
            try:
                response = await self.send()
                outcome, whole = self.told(response), None
                if has_error(outcome.status or 0, response.headers):
                    whole = await self.read(response)
                    outcome = self.told(whole)
            except BaseException as error:
                permit.settle(error)
                raise
            is_over = not repetition.goes_on(outcome, response if whole is None else whole) or not self.can_repeat()
            if is_over and whole is None:
                self.finish(permit, outcome, response)
            else:
                permit.settle(outcome)
            if is_over:
                return response
            await self.close(response)


def settle_with_body(permit: Permit, outcome: Outcome, body: object, *ends: str) -> None:
    """Settles a permit with a response whose body is still to come.

    If a limit counts the calls in flight, the call lasts until one of the methods `ends` of the body
    is called, or nobody holds the body any more.
    """
    if not permit.has_place:
        return permit.settle(outcome)
    permit.if_lost = lambda: outcome
    # Through a weak reference: without a circle, a body that is forgotten is gone at once.
    here, kind = weakref.ref(body), type(body)

    def ended(method: Callable[..., Any]) -> Callable[..., Any]:
        def end(*args: Any, **kwargs: Any) -> Any:
            permit.settle(outcome)
            alive = here()
            return None if alive is None else method(alive, *args, **kwargs)

        return end

    for name in filter(partial(hasattr, kind), ends):
        setattr(body, name, ended(getattr(kind, name)))
