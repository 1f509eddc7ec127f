"""What tokens of language models cost: `prices.json`, the vendors' list prices."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from operator import mul
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from ..bounds import MAX_AMOUNT, MAX_LABEL_VALUE
from ..errors import InvalidArgument

MICROS: Final = 1_000_000
"""Millionths of a dollar per million tokens are millionths of a millionth of a dollar per token: so
many of these are a millionth of a dollar."""

NOISE: Final = Decimal("0.001")
"""How far a price that a program wrote may be from one of six decimals, in millionths."""

FAULTS: Final = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError)
"""What JSON of another form raises."""

File: TypeAlias = "str | os.PathLike[str]"

_VERSION: Final = re.compile(r"(.*)[-@:](?:v[0-9]*|latest|preview|exp|[0-9]{2,4}|[0-9]{8}|0)", re.DOTALL)


class Demand(NamedTuple):
    """The most that a request may take.

    Attributes:
        input: The tokens of its prompt: an upper bound, not an estimate.
        output: The most tokens of an answer; `None` if the request sets no bound.
        answers: The number of answers.
    """

    input: int
    output: int | None
    answers: int


class Kinds(NamedTuple):
    """A number for each kind of token: of tokens, or of picodollars for one of them.

    Attributes:
        input: Of the prompt, neither read from a cache nor written into one.
        cached: Read from a cache.
        kept: Written into a cache.
        kept_hour: Written into a cache for an hour.
        output: Of the answer, reasoning included.
    """

    input: int
    cached: int
    kept: int
    kept_hour: int
    output: int


class ModelPrice(NamedTuple):
    """What a model's tokens cost.

    Attributes:
        rates: The prices of its tokens.
        longest: The most tokens of one answer, which a request without a bound may take.
        above: The most tokens of a prompt at these prices, and the prices beyond.
    """

    rates: Kinds
    longest: int
    above: tuple[int, Kinds] | None

    def most(self, demand: Demand) -> float:
        """The most dollars that a call can cost: as if each token of its prompt were of the dearest kind."""
        each = self.longest if demand.output is None else demand.output
        rates = [self.rates]
        if self.above and demand.input > self.above[0]:
            rates.append(self.above[1])
        return _dollars(max(demand.input * max(rate[:-1]) + each * demand.answers * rate.output for rate in rates))

    def paid(self, tokens: Kinds) -> float:
        """The dollars that a call has cost."""
        is_long = self.above and sum(tokens[:-1]) > self.above[0]
        return _dollars(sum(map(mul, tokens, self.above[1] if self.above and is_long else self.rates)))


class Prices:
    """Prices of models, in USD.

    Example:
        >>> prices = Prices.listed()
        >>> prices.of("openai/gpt-4o-2024-08-06").most(Demand(1000, 500, 1))
        0.0075
        >>> prices.of("unknown") is None
        True
    """

    def __init__(self, models: Mapping[str, ModelPrice]) -> None:
        self._models = models

    @staticmethod
    @cache
    def listed() -> Prices:
        """The list of this release."""
        return Prices(_models(files(__package__).joinpath("prices.json").read_text("utf-8")))

    def replaced_by(self, own: File) -> Prices:
        """These prices, with those of a file in their place.

        Raises:
            InvalidArgument: If the file can't be read, or is not in the form of the list.
        """
        try:
            return Prices({**self._models, **_models(Path(own).read_text("utf-8"))})
        except (OSError, *FAULTS) as error:
            hint = "write `models` as `rampmeter price --list --json` prints them"
            raise InvalidArgument(f"the prices in {os.fspath(own)!r}: {error}; {hint}") from error

    def of(self, model: str) -> ModelPrice | None:
        """The price of a model, by its name or else without vendor, date and version."""
        names = _names(model.lower()) if len(model) <= MAX_LABEL_VALUE else ()
        return next((self._models[name] for name in names if name in self._models), None)


def _names(model: str) -> Iterator[str]:
    """The names under which a model may be listed, the most exact first."""
    for start in (0, *(found.end() for found in re.finditer("[/.]", model))):
        name = model[start:]
        yield name
        while without := _VERSION.fullmatch(name):
            name = without[1]
            yield name


def _dollars(picos: int) -> float:
    """Rounded up to a millionth."""
    return min(-(-picos // MICROS), MAX_AMOUNT * MICROS) / MICROS


def _models(text: str) -> dict[str, ModelPrice]:
    told = json.loads(text, parse_float=Decimal, parse_constant=Decimal)
    if not isinstance(told, dict):
        raise ValueError(f"it is a {type(told).__name__}, and no object")
    if unknown := told.keys() - {"date", "sources", "models"}:
        raise ValueError(f"there is no field {', '.join(sorted(unknown))}")
    if not isinstance(told.get("date"), str) or not isinstance(told.get("models"), dict):
        raise ValueError("it has a `date`, a text, and `models`")
    return {name.lower(): _model(name, fields) for name, fields in told["models"].items()}


def _model(name: str, fields: Mapping[str, Any]) -> ModelPrice:
    try:
        above = fields.get("above")
        beyond = above and (_count(above["input_tokens"]), _rates(above))
        return ModelPrice(_rates(fields), _count(fields["most"]), beyond)
    except FAULTS as error:
        raise ValueError(f"{name}: {type(error).__name__}: {error}") from error


def _rates(fields: Mapping[str, Any]) -> Kinds:
    """What a vendor charges for a kind of token, or for the kind that this one is as dear as."""
    told = {kind: _micros(price) for kind, price in fields.items() if kind in Kinds._fields and price is not None}
    kept = told.get("kept", told["input"])
    otherwise = {"cached": told["input"], "kept": kept, "kept_hour": kept}
    return Kinds(**{**otherwise, **told})


def _micros(price: Any) -> int:
    if isinstance(price, bool) or not isinstance(price, (int, Decimal)) or not 0 <= price <= MAX_AMOUNT:
        raise ValueError(f"a price is a number from 0 to {MAX_AMOUNT}, not {price}")
    exact = Decimal(price) * MICROS
    if abs(exact - round(exact)) > NOISE:
        raise ValueError(f"a price has at most 6 decimals, not {price}")
    return round(exact)


def _count(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"a number of tokens is a whole number, not {number}")
    return number
