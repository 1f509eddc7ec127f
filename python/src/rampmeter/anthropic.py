"""Permits for anthropic: `anthropic.Anthropic(http_client=rampmeter.anthropic.http_client(hub))`.

Example:
    hub = rampmeter.connect("http://127.0.0.1:9480").resource("anthropic")
    client = anthropic.Anthropic(http_client=rampmeter.anthropic.http_client(hub))
    client.messages.create(model="claude-opus", messages=[…], max_tokens=300)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from anthropic import DefaultAsyncHttpxClient, DefaultHttpxClient

from ._model.prices import File
from ._model.transport import with_model_permits
from .repetition import REPEATS
from .resource import Resource
from .terms import Labels


def http_client(
    resource: Resource,
    *,
    labels: Labels = None,
    not_accounts: Collection[str] = (),
    class_: str | None = None,
    max_wait: float | None = None,
    repeats: int = REPEATS,
    money: str | None = None,
    prices: File | None = None,
    **options: Any,
) -> DefaultHttpxClient:
    """An HTTP client for `anthropic.Anthropic`.

    Each call waits for its turn, and a 429 is repeated here. A call costs one of `requests`, its
    input in `input-tokens` and the most it may answer in `output-tokens`. The usage in the answer
    settles it, that of a stream at its end. A stream that is closed early is settled with what has
    come.

    A refusal is an error of the package with the scheduler's message, and is not repeated:
    `anthropic.RateLimitError` if the call did not start in time, `anthropic.BadRequestError` if it
    never will. Its `response.extensions["rampmeter"]` is the `rampmeter.Refused`.

    Args:
        resource: The account that the calls are charged to.
        labels: The labels of a request, or a function of the request. The label `model` is the
            model of the request, unless these or those of `resource` say otherwise.
        not_accounts: The accounts that may not make a call.
        class_: The priority class.
        max_wait: The longest wait in seconds, over all repetitions.
        repeats: How often a call that is answered 429 is repeated; then the caller gets the error.
        money: The unit of limits in money, such as `usd`. A call then also costs the most that it
            may, by its bytes and bounds, and is settled at the prices of the tokens in its usage.
            One without a price is refused.
        prices: A file with prices of your own, in the form of `rampmeter price --list --json`, in
            place of those that the package has.
        options: What the package's `DefaultHttpxClient` takes, such as `proxy` and `verify`.
    """
    terms: dict[str, Any] = {
        "labels": labels,
        "not_accounts": not_accounts,
        "class_": class_,
        "max_wait": max_wait,
        "repeats": repeats,
        "money": money,
        "prices": prices,
    }
    return with_model_permits(DefaultHttpxClient(**options), resource, cost, **terms)


def async_http_client(
    resource: Resource,
    *,
    labels: Labels = None,
    not_accounts: Collection[str] = (),
    class_: str | None = None,
    max_wait: float | None = None,
    repeats: int = REPEATS,
    money: str | None = None,
    prices: File | None = None,
    **options: Any,
) -> DefaultAsyncHttpxClient:
    """An HTTP client for `anthropic.AsyncAnthropic`, with the arguments of `http_client`."""
    terms: dict[str, Any] = {
        "labels": labels,
        "not_accounts": not_accounts,
        "class_": class_,
        "max_wait": max_wait,
        "repeats": repeats,
        "money": money,
        "prices": prices,
    }
    return with_model_permits(DefaultAsyncHttpxClient(**options), resource, cost, **terms)


def cost(read: float, answered: float) -> dict[str, float]:
    """The cost of one call."""
    return {"requests": 1, "input-tokens": read, "output-tokens": answered}
