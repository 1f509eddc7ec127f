"""Permits for openai-python: `openai.OpenAI(http_client=rampmeter.openai.http_client(hub))`.

Example:
    hub = rampmeter.connect("http://127.0.0.1:9480").resource("openai")
    client = openai.OpenAI(http_client=rampmeter.openai.http_client(hub))
    client.chat.completions.create(model="gpt-5", messages=[…], max_tokens=300)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

from ._model.prices import File
from ._model.transport import with_model_permits
from .repetition import REPEATS
from .resource import Resource
from .terms import Labels


def http_client(
    resource: Resource,
    *,
    unit: str = "tokens",
    count: Callable[[str, str], int] | None = None,
    labels: Labels = None,
    not_accounts: Collection[str] = (),
    class_: str | None = None,
    max_wait: float | None = None,
    repeats: int = REPEATS,
    money: str | None = None,
    prices: File | None = None,
    **options: Any,
) -> DefaultHttpxClient:
    """An HTTP client for `openai.OpenAI`, for LangChain and for LiteLLM.

    Each call waits for its turn, and a 429 is repeated here. A call costs one request, and in
    `unit` its input and the most it may answer. The usage in the answer settles it, that of a
    stream at its end. A stream that is closed early is settled with what has come.

    A refusal is an error of the package with the scheduler's message, and is not repeated:
    `openai.RateLimitError` if the call did not start in time, `openai.BadRequestError` if it never
    will. Its `response.extensions["rampmeter"]` is the `rampmeter.Refused`.

    Args:
        resource: The account that the calls are charged to.
        unit: The unit of tokens in the resource's limits.
        count: Counts the tokens of a text for a model; `tokens` counts with tiktoken. By default
            they are estimated from its bytes.
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
    return with_model_permits(DefaultHttpxClient(**options), resource, functools.partial(cost, unit), count, **terms)


def async_http_client(
    resource: Resource,
    *,
    unit: str = "tokens",
    count: Callable[[str, str], int] | None = None,
    labels: Labels = None,
    not_accounts: Collection[str] = (),
    class_: str | None = None,
    max_wait: float | None = None,
    repeats: int = REPEATS,
    money: str | None = None,
    prices: File | None = None,
    **options: Any,
) -> DefaultAsyncHttpxClient:
    """An HTTP client for `openai.AsyncOpenAI`, with the arguments of `http_client`."""
    terms: dict[str, Any] = {
        "labels": labels,
        "not_accounts": not_accounts,
        "class_": class_,
        "max_wait": max_wait,
        "repeats": repeats,
        "money": money,
        "prices": prices,
    }
    client = DefaultAsyncHttpxClient(**options)
    return with_model_permits(client, resource, functools.partial(cost, unit), count, **terms)


def cost(unit: str, read: float, answered: float) -> dict[str, float]:
    """The cost of one call."""
    return {"requests": 1, unit: read + answered}


def tokens(model: str, text: str) -> int:
    """Counts the tokens of a text with tiktoken, which loads its tables over the network once."""
    return len(_encoding(model).encode(text, disallowed_special=()))


@functools.cache
def _encoding(model: str) -> Any:
    import tiktoken

    try:
        return tiktoken.encoding_for_model(model)
    except KeyError:
        return tiktoken.get_encoding("o200k_base")
