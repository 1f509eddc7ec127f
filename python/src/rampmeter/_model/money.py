"""What calls of language models cost, in the unit in which limits count money."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ..cost import checked_name
from ..errors import InvalidArgument
from .estimate import body_of, demand, kind_of, model_of
from .prices import Demand, File, Kinds, ModelPrice, Prices

MAX_SHOWN: Final = 100
"""Characters of a model or a path in an error."""


class CallPrice(NamedTuple):
    """The price of one call's model, and the most that the call may take."""

    unit: str
    price: ModelPrice
    demand: Demand

    @property
    def has_output(self) -> bool:
        """Whether the model answers with tokens, unlike one of embeddings."""
        return self.price.longest > 0

    def most(self) -> dict[str, float]:
        """The most that the call may cost."""
        return {self.unit: self.price.most(self.demand)}

    def paid(self, tokens: Kinds | None) -> dict[str, float]:
        """What these tokens cost. If they are not certain, the most stays charged."""
        return {} if tokens is None else {self.unit: self.price.paid(tokens)}

    def prompt(self) -> dict[str, float]:
        """The most that the prompt alone may cost as fresh input."""
        return {self.unit: self.price.paid(Kinds(self.demand.input, 0, 0, 0, 0))}

    def nothing(self) -> dict[str, float]:
        """What a call costs that the vendor has refused."""
        return {self.unit: 0}


class Money:
    """How calls are charged for what they cost.

    Args:
        unit: The unit of limits in money.
        prices: A file of prices in place of those of the list.

    Raises:
        InvalidArgument: If `unit` is no name, or the file can't be used.
    """

    def __init__(self, unit: str, prices: File | None) -> None:
        self._unit, listed = checked_name("unit", unit), Prices.listed()
        self._prices = listed if prices is None else listed.replaced_by(prices)

    def of(self, request: Any) -> CallPrice | None:
        """The price of a call; nothing for one that takes no tokens.

        Raises:
            InvalidArgument: If the call has no price: no budget would hold it.
        """
        body = body_of(request)
        kind = kind_of(request, body)
        if kind == "free":
            return None
        if kind == "unknown":
            path = str(request.url.path)[:MAX_SHOWN]
            raise InvalidArgument(
                f"the tokens of a call to `{path}` are not known; make it with a client without `money`"
            )
        return CallPrice(self._unit, self._price(model_of(request, body), body), demand(request, body))

    def _price(self, model: str | None, body: Mapping[str, Any]) -> ModelPrice:
        if not body:
            raise InvalidArgument("the body does not tell what its call costs: it is no JSON, or is not in memory")
        if model is None:
            raise InvalidArgument("the call names no model, which tells the price")
        if (price := self._prices.of(model)) is None:
            raise InvalidArgument(f"there is no price of `{model[:MAX_SHOWN]}`; add it to the file of `prices`")
        return price
