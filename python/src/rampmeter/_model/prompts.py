"""What vendors keep of prompts, so that reading it again costs nothing."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from typing import Any, Final

from .estimate import MODELS, body_of, tokens_of

MAX_PROMPTS: Final = 512
"""The most prompts that are remembered."""

KEPT: Final = 300.0
"""Seconds for which a vendor keeps a prompt after its last use."""


class Prompts:
    """The tokens that vendors keep of prompts, as their last answers said."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def note(self, request: Any, kept: float) -> None:
        """Notes that the vendor keeps so many tokens of the prompt of `request`."""
        instructions, conversation, most = _prompt_of(request)
        for key, tokens in ((conversation, kept), (instructions, min(kept, most))):
            self._kept[key] = time.monotonic(), tokens
            self._kept.move_to_end(key)
        while len(self._kept) > MAX_PROMPTS:
            self._kept.popitem(last=False)

    def kept(self, request: Any) -> float:
        """The tokens of its prompt that cost nothing now."""
        if not self._kept:
            return 0
        instructions, conversation, _ = _prompt_of(request)
        found = (self._kept.get(key, (-KEPT, 0.0)) for key in (conversation, instructions))
        return next((tokens for at, tokens in found if time.monotonic() - at < KEPT), 0)


def _prompt_of(request: Any) -> tuple[int, int, int]:
    """Hashes of the instructions and tools, and of these with the first message; the tokens of the former."""
    body = body_of(request)
    instructions = {name: body[name] for name in ("model", *MODELS["instructions"]) if name in body}
    first = next(iter(body.get("messages") or []), None)
    text = json.dumps(instructions)
    return hash(text), hash((text, json.dumps(first))), tokens_of(instructions)
