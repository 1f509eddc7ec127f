"""What a request to a language model costs, before it is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ..bounds import MAX_LABEL_VALUE

BYTES_PER_TOKEN: Final = 3
"""If there is no tokenizer. Most languages have more, so that estimates are high."""

PER_MESSAGE: Final = 4
"""Tokens that surround a message."""

DEFAULT_OUTPUT: Final = 1024
"""Tokens of an answer whose request names no most. A settle corrects it."""

_TEXTS: Final = ("messages", "input", "prompt", "system", "instructions")
_MOST: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")


def estimate(request: Any, count: Callable[[str, str], int] | None = None) -> tuple[float, float]:
    """The tokens of input and the most tokens of output of a request that was not sent yet."""
    body = _body_of(request)
    if not body:
        return 0, 0
    texts = [text for name in _TEXTS for text in _texts(body.get(name))]
    read = "\n".join(texts)
    tokens = count(str(body.get("model", "")), read) if count else -(-len(read.encode()) // BYTES_PER_TOKEN)
    default = 0 if str(request.url.path).endswith(("/embeddings", "/moderations")) else DEFAULT_OUTPUT
    most = next((body[name] for name in _MOST if isinstance(body.get(name), int)), default)
    return tokens + PER_MESSAGE * len(texts), most


def labels_of(request: Any) -> dict[str, str]:
    """The label `model`, by which presets key their limits; none if the body names no model."""
    model = _body_of(request).get("model")
    return {"model": model[:MAX_LABEL_VALUE]} if isinstance(model, str) and model else {}


def _body_of(request: Any) -> Mapping[str, Any]:
    """The fields of a body of JSON. A file that is sent as it is read has none."""
    try:
        body = json.loads(getattr(request, "_content", b""))
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _texts(value: object) -> Iterator[str]:
    """All strings of a message's content, pictures left out."""
    if isinstance(value, str):
        yield value if not value.startswith("data:") else ""
    elif isinstance(value, Mapping):
        for name in ("content", "text", "input"):
            yield from _texts(value.get(name))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
