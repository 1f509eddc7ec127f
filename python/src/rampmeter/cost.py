"""What a request says of its call: costs, labels, accounts and other ways."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias, TypedDict

from .bounds import MAX_AMOUNT, MAX_LABEL_KEY, MAX_LABEL_VALUE, MAX_LABELS, MAX_NAME, MAX_UNITS, MAX_WAYS
from .errors import InvalidArgument

Cost: TypeAlias = "float | Mapping[str, float]"
"""Amounts by unit. A number alone counts requests. Amounts have at most six decimals."""


class Way(TypedDict, total=False):
    """Another way to make a call, such as by a smaller model.

    Attributes:
        labels: Labels in place of those of the request; an empty value leaves a label out.
        cost: What the call costs in this way, if that differs.
        worth: Seconds that a start in this way is worth waiting for; 0 by default.
    """

    labels: Mapping[str, str]
    cost: Cost
    worth: float


NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}")


def checked_name(kind: str, name: str) -> str:
    """The name, if it is one of the wire.

    Raises:
        InvalidArgument: If it is empty, too long, or has other characters.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        shown = repr(name)[:80]
        raise InvalidArgument(f"{kind} {shown} is no name: take 1 to {MAX_NAME} of A-Z, a-z, 0-9, '_' and '-'")
    return name


def checked_cost(cost: Cost) -> dict[str, float]:
    """The cost by unit, with amounts rounded up to the sixth decimal.

    Raises:
        InvalidArgument: If a unit is no name, or an amount is negative, infinite or too large.

    Example:
        >>> checked_cost(1)
        {'requests': 1}
        >>> checked_cost({"requests": 1, "processing-units": 2.5})
        {'requests': 1, 'processing-units': 2.5}
        >>> checked_cost(-1)
        Traceback (most recent call last):
        rampmeter.errors.InvalidArgument: requests: an amount is from 0 to 1000000000, not -1
    """
    if not isinstance(cost, Mapping):
        return {"requests": _amount("requests", cost)}
    if len(cost) > MAX_UNITS:
        raise InvalidArgument(f"a cost has at most {MAX_UNITS} units, not {len(cost)}")
    return {checked_name("unit", unit): _amount(unit, amount) for unit, amount in cost.items()}


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels, if the wire has room for them.

    Raises:
        InvalidArgument: If there are too many, or one is too long or no string.
    """
    if len(labels) > MAX_LABELS:
        raise InvalidArgument(f"a request has at most {MAX_LABELS} labels, not {len(labels)}")
    for key, value in labels.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidArgument(f"label {str(key)[:64]!r}: keys and values are strings")
        if not 0 < len(key) <= MAX_LABEL_KEY:
            raise InvalidArgument(f"label {key[:64]!r}: a key has 1 to {MAX_LABEL_KEY} characters")
        if len(value) > MAX_LABEL_VALUE:
            raise InvalidArgument(f"label {key!r}: a value has at most {MAX_LABEL_VALUE} characters, not {len(value)}")
    return dict(labels)


def checked_accounts(names: Collection[str]) -> list[str]:
    """Returns the names of accounts as a list.

    Raises:
        InvalidArgument: If one is no name, or `names` is a single string.
    """
    if isinstance(names, str):
        raise InvalidArgument(f"not_accounts is a collection of names, such as ('team-a',), not {names[:80]!r}")
    return [checked_name("account", name) for name in names]


def checked_ways(ways: Sequence[Way]) -> list[dict[str, Any]]:
    """Returns other ways to make a call as the wire has them.

    Raises:
        InvalidArgument: If there are too many, or a part of one is invalid.

    Example:
        >>> checked_ways([{"labels": {"model": "small"}, "cost": 2, "worth": 0.5}])
        [{'labels': {'model': 'small'}, 'cost': {'requests': 2}, 'else_after_ms': 500.0}]
    """
    if isinstance(ways, str | Mapping) or not all(isinstance(way, Mapping) for way in ways):
        raise InvalidArgument(f"or_ is a list of ways, such as [{{'labels': {{…}}}}], not {ways!r}"[:200])
    if len(ways) > MAX_WAYS:
        raise InvalidArgument(f"a request has at most {MAX_WAYS} other ways, not {len(ways)}")
    return [_checked_way(way) for way in ways]


def _checked_way(way: Way) -> dict[str, Any]:
    if unknown := way.keys() - Way.__annotations__.keys():
        raise InvalidArgument(f"a way has {', '.join(Way.__annotations__)}, not {', '.join(map(str, unknown))}"[:200])
    fields: dict[str, Any] = {}
    if "labels" in way:
        fields["labels"] = checked_labels(way["labels"])
    if "cost" in way:
        fields["cost"] = checked_cost(way["cost"])
    if worth := checked_seconds("worth", way.get("worth", 0)):
        fields["else_after_ms"] = 1000 * worth
    return fields


def checked_seconds(name: str, seconds: float) -> float:
    """Returns the length of time.

    Raises:
        InvalidArgument: If it is invalid.
    """
    if not isinstance(seconds, Real) or not 0 <= seconds < float("inf"):
        raise InvalidArgument(f"{name} is a number of seconds from 0 on, not {seconds!r}")
    return seconds


def _amount(unit: str, amount: float) -> float:
    if isinstance(amount, bool):
        raise InvalidArgument(f"{unit}: an amount is a number, not {amount!r}")
    if isinstance(amount, int) and 0 <= amount <= MAX_AMOUNT:
        return amount
    try:
        number = float(amount)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{unit}: an amount is a number, not {amount!r}"[:200]) from None
    if not 0 <= number <= MAX_AMOUNT:
        raise InvalidArgument(f"{unit}: an amount is from 0 to {MAX_AMOUNT}, not {amount}")
    rounded = round(number, 6)
    return rounded if rounded >= number else round(math.ceil(number * 1e6) / 1e6, 6)
