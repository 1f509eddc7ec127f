"""On which terms an adapter asks for permits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from .asking import Asking
from .cost import Cost
from .resource import Resource

Request = TypeVar("Request")


class Terms(Generic[Request]):
    """The cost and the labels of each request, and the options of a permit.

    Args:
        resource: The account that the requests are charged to.
        cost: What a request costs: an amount, amounts by unit, or a function of the request.
        labels: The labels of a request, or a function of the request.
        options: `class_` and `max_wait`, as `Resource.permit` takes them.
    """

    def __init__(
        self,
        resource: Resource,
        cost: Cost | Callable[[Request], Cost] = 1,
        labels: Mapping[str, str] | Callable[[Request], Mapping[str, str]] | None = None,
        **options: Any,
    ) -> None:
        self.resource = resource
        self._cost = cost
        self._labels = labels
        self._options = options

    def asking(self, request: Request, more: Mapping[str, Any]) -> Asking:
        """The request for the permit of `request`; `more` is of a repetition."""
        cost = self._cost(request) if callable(self._cost) else self._cost
        labels = self._labels(request) if callable(self._labels) else self._labels
        return self.resource.permit(cost, labels=labels, **{**self._options, **more})
