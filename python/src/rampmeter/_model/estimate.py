"""What a request to a language model costs, before it is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from ..bounds import MAX_LABEL_VALUE
from .prices import Demand

MODELS: Final[dict[str, Any]] = json.loads(files(__package__).joinpath("models.json").read_bytes())
"""What is known of models; the proxy counts by the same table."""

NO_MODEL: Final = "none"
"""The label of calls that name no model. They share limits of their own."""

BYTES_PER_TOKEN: Final = 4
"""Of a body that is no JSON."""

TOKENS_OF_TOOLS: Final = 1024
"""The most tokens that a vendor adds to a prompt to explain its tools to the model."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/=_-]*")
_CHARACTERS: Final = tuple(MODELS["twelfths"])


def _class_of(byte: int) -> int:
    if byte < 0x80:
        return 1 if chr(byte).isdigit() else 0 if chr(byte).isalpha() or byte <= 32 else 2
    return 6 if byte < 0xC0 else 3 if byte < 0xE0 else 4 if byte < 0xF0 else 5


_CLASSES: Final = bytes(map(_class_of, range(256)))
"""For `bytes.translate`: the place among `_CHARACTERS` of the character that begins with a byte."""


class Other(NamedTuple):
    """A part of a request that is no text.

    Attributes:
        tokens: Its tokens.
        size: The bytes of an attachment, which are none of the prompt.
    """

    tokens: int = 1
    size: int = 0


def estimate(request: Any, count: Callable[[str, str], int] | None = None) -> tuple[float, float]:
    """The tokens of input and the most tokens of output of a request that was not sent yet."""
    body = body_of(request)
    kind, most = kind_of(request, body), _bound(body)
    if kind in ("free", "unknown"):
        return 0, 0
    read = tokens_of(body, count)
    if not body:
        read = -(-len(getattr(request, "_content", b"")) // BYTES_PER_TOKEN)
    if kind == "embeds":
        return read, 0
    return read, (MODELS["output"]["default"] if most is None else most) * _answers(body)


def demand(request: Any, body: Mapping[str, Any]) -> Demand:
    """The most that a request may take, whatever the tokenizer: a token is a byte or more."""
    attached = [part for part in _parts(body) if isinstance(part, Other) and part.size]
    read = len(getattr(request, "_content", b"")) + sum(part.tokens - part.size for part in attached)
    has_tools = body.get("tools") or body.get("toolConfig")
    most = 0 if kind_of(request, body) == "embeds" else _bound(body)
    return Demand(read + (TOKENS_OF_TOOLS if has_tools else 0), most, _answers(body))


def tokens_of(body: Mapping[str, Any], count: Callable[[str, str], int] | None = None) -> int:
    """The tokens of input in these fields of a request."""
    parts = list(_parts(body))
    texts = [part for part in parts if isinstance(part, str)]
    read = count(str(body.get("model", "")), "\n".join(texts)) if count else -(-sum(map(twelfths, texts)) // 12)
    # What is no text counts as a token, whoever counts the texts.
    return read + sum(part.tokens for part in parts if isinstance(part, Other))


def labels_of(request: Any) -> dict[str, str]:
    """The label `model`, by which presets key their limits."""
    model = body_of(request).get("model")
    return {"model": model[:MAX_LABEL_VALUE] if isinstance(model, str) and model else NO_MODEL}


def model_of(request: Any, body: Mapping[str, Any]) -> str | None:
    """The model that the body or else the path names."""
    model, path = body.get("model"), _path_of(request)
    behind = (path.partition(before)[2] for before in MODELS["paths"]["model_behind"] if before in path)
    return model if isinstance(model, str) else re.split("[/:]", next(behind, ""))[0] or None


def twelfths(text: str) -> int:
    """The tokens of a text by its characters, in twelfths of one.

    Example:
        >>> twelfths("word"), twelfths("漢字"), twelfths("1,2")
        (12, 30, 16)
    """
    classes = text.encode("utf-8", "surrogatepass").translate(_CLASSES)
    return sum(classes.count(number) * MODELS["twelfths"][name] for number, name in enumerate(_CHARACTERS))


def kind_of(request: Any, body: Mapping[str, Any]) -> str:
    """Which list of paths the request is in: `free`, `embeds` or `generates`; `unknown` if in none."""
    path = _path_of(request)
    if request.method != "POST":
        return "free"
    kinds = ("free", "embeds", "generates")
    found = (kind for kind in kinds if any(_ends_with(path, end) for end in MODELS["paths"][kind]))
    return next(found, "unknown" if _bound(body) is None else "generates")


def _path_of(request: Any) -> str:
    return unquote(str(request.url.path)).rstrip("/")


def _ends_with(path: str, end: str) -> bool:
    before, star, behind = end.rpartition("*")
    return path.endswith(behind) and (not star or before in path)


def body_of(request: Any) -> Mapping[str, Any]:
    """The fields of a body of JSON. A file that is sent as it is read has none."""
    try:
        body = json.loads(getattr(request, "_content", b""))
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _bound(body: Mapping[str, Any]) -> int | None:
    """The most tokens of an answer; vendors take -1 for no bound."""
    told = (at(body, path) for path in MODELS["output"]["most"])
    return next((most for most in told if isinstance(most, int) and most >= 0), None)


def _answers(body: Mapping[str, Any]) -> int:
    told = (at(body, path) for path in MODELS["output"]["answers"])
    prompts = body.get(MODELS["output"]["prompts"])
    many = sum(isinstance(prompt, str) for prompt in prompts) if isinstance(prompts, list) else 1
    return max([1, *(number for number in told if isinstance(number, int))]) * max(many, 1)


def at(body: Any, path: str) -> Any:
    """What is at this path, keys joined by dots."""
    for key in path.split("."):
        body = body.get(key) if isinstance(body, Mapping) else None
    return body


def _parts(value: object, path: str = "", depth: int = 1) -> Iterator[str | Other]:
    """The texts in a request, and what is no text. Parameters of the request are none."""
    if isinstance(value, str):
        yield _attached(value, path) or value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if depth > 1:
                yield key
                yield Other()
            yield from _parts(item, f"{path}.{key}".lstrip("."), depth + isinstance(item, (list, Mapping)))
    elif isinstance(value, list):
        for item in value:
            yield from _parts(item, path, depth + isinstance(item, (list, Mapping)))
    elif depth > 1:
        yield Other()


def _attached(text: str, path: str) -> Other | None:
    """An attachment; nothing for a text."""
    keys = path.split(".")
    is_at = {path, ".".join(keys[-2:]), keys[-1]}
    media, is_url, _ = text[:1024].partition(";base64,")
    kind = next((kind for end, kind in MODELS["attachments"].items() if end in is_at), None)
    if media.startswith("data:") and is_url:
        start, kind = media[5:], "picture"
    elif kind is not None and _BASE64.fullmatch(text):
        start = text[:64]
    elif is_at.intersection(MODELS["links"]):
        return Other(MODELS["kinds"]["picture"]["least"], len(text))
    else:
        return None
    kinds = MODELS["kinds"]
    found = next((known for known in kinds.values() if start.startswith(tuple(known["signs"]))), kinds[kind])
    size = len(text) * 3 // 4 // found["bytes_per_token"]
    return Other(min(max(size, found["least"]), found["most"]), len(text))
