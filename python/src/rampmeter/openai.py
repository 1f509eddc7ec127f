"""Permits for openai-python: `openai.OpenAI(http_client=rampmeter.openai.http_client(hub))`.

Example:
    hub = rampmeter.connect("http://127.0.0.1:9480").resource("openai")
    client = openai.OpenAI(http_client=rampmeter.openai.http_client(hub))
    client.chat.completions.create(model="gpt-5", messages=[…], max_tokens=300)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

from ._model.transport import AsyncModelTransport, ModelTransport, httpx_of
from .resource import Resource


def http_client(
    resource: Resource,
    *,
    unit: str = "tokens",
    count: Callable[[str, str], int] | None = None,
    transport: Any = None,
    class_: str | None = None,
    max_wait: float | None = None,
) -> Any:
    """An HTTP client for `openai.OpenAI`, for LangChain and for LiteLLM.

    Each call waits for its turn, and a 429 is repeated here: openai-python never sees one. A call
    costs one request, and in `unit` its input and the most it may answer. The usage in the answer
    settles it, that of a stream at its end. A stream that is closed early is settled with what has
    come.

    A refusal reaches the caller as `openai.APIConnectionError`, after openai-python's own retries;
    its `__cause__` is the `rampmeter.Refused`.

    Args:
        resource: The account that the calls are charged to.
        unit: The unit of tokens in the resource's limits.
        count: Counts the tokens of a text for a model; `tokens` counts with tiktoken. By default
            they are estimated from its bytes.
        transport: What sends the requests; by default a new one.
        class_: The priority class.
        max_wait: The longest wait in seconds, over all repetitions.
    """
    module = httpx_of(DefaultHttpxClient)
    below = transport or module.HTTPTransport(limits=module.Limits(max_connections=1000, max_keepalive_connections=100))
    costing = functools.partial(cost, unit)
    return DefaultHttpxClient(
        transport=ModelTransport(resource, below, costing, count, class_=class_, max_wait=max_wait)  # type: ignore[arg-type]
    )


def async_http_client(
    resource: Resource,
    *,
    unit: str = "tokens",
    count: Callable[[str, str], int] | None = None,
    transport: Any = None,
    class_: str | None = None,
    max_wait: float | None = None,
) -> Any:
    """The same for `openai.AsyncOpenAI`."""
    module = httpx_of(DefaultAsyncHttpxClient)
    limits = module.Limits(max_connections=1000, max_keepalive_connections=100)
    below = transport or module.AsyncHTTPTransport(limits=limits)
    costing = functools.partial(cost, unit)
    return DefaultAsyncHttpxClient(
        transport=AsyncModelTransport(resource, below, costing, count, class_=class_, max_wait=max_wait)  # type: ignore[arg-type]
    )


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
