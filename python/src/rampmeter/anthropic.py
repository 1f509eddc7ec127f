"""Permits for anthropic: `anthropic.Anthropic(http_client=rampmeter.anthropic.http_client(hub))`.

Example:
    hub = rampmeter.connect("http://127.0.0.1:9480").resource("anthropic")
    client = anthropic.Anthropic(http_client=rampmeter.anthropic.http_client(hub))
    client.messages.create(model="claude-opus", messages=[…], max_tokens=300)
"""

from __future__ import annotations

from typing import Any

from anthropic import DefaultAsyncHttpxClient, DefaultHttpxClient

from ._model.transport import Labels, client_of
from .resource import Resource


def http_client(
    resource: Resource,
    *,
    transport: Any = None,
    labels: Labels = None,
    class_: str | None = None,
    max_wait: float | None = None,
) -> Any:
    """An HTTP client for `anthropic.Anthropic`.

    Each call waits for its turn, and a 429 is repeated here: the package never sees one. A call
    costs one of `requests`, its input in `input-tokens` and the most it may answer in
    `output-tokens`. The usage in the answer settles it, that of a stream at its end. A stream that
    is closed early is settled with what has come.

    A refusal reaches the caller as `anthropic.APIConnectionError`, after the package's own
    retries; its `__cause__` is the `rampmeter.Refused`.

    Args:
        resource: The account that the calls are charged to.
        transport: What sends the requests; by default a new one.
        labels: The labels of a request, or a function of the request. The label `model` is the
            model of the request, unless these or those of `resource` say otherwise.
        class_: The priority class.
        max_wait: The longest wait in seconds, over all repetitions.
    """
    options = {"labels": labels, "class_": class_, "max_wait": max_wait}
    return client_of(DefaultHttpxClient, False, resource, transport, cost, **options)


def async_http_client(
    resource: Resource,
    *,
    transport: Any = None,
    labels: Labels = None,
    class_: str | None = None,
    max_wait: float | None = None,
) -> Any:
    """The same for `anthropic.AsyncAnthropic`."""
    options = {"labels": labels, "class_": class_, "max_wait": max_wait}
    return client_of(DefaultAsyncHttpxClient, True, resource, transport, cost, **options)


def cost(read: float, answered: float) -> dict[str, float]:
    """The cost of one call."""
    return {"requests": 1, "input-tokens": read, "output-tokens": answered}
