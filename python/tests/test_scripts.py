"""The rules of a client, as scripts: `protocol/session-scripts/README.md` says how to read them."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rampmeter._core.ask import Ask, Failure, Grant, Pause, Reply, Send, Tell
from rampmeter._core.contact import Contact
from rampmeter.errors import Refused, Unreachable
from rampmeter.policy import Fail, SafeRate

SCRIPTS = sorted((Path(__file__).resolve().parents[2] / "protocol" / "session-scripts").glob("*.txt"))
assert SCRIPTS, "there are no scripts to play"
ORIGIN = 1000.0
"""The clock's time at the beginning of a script, in seconds."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path) -> None:
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    for seed in range(20):
        Play(seed).run(lines)


class Play:
    """One script with one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.policy: Fail | SafeRate | None = None
        self.ids: list[str] = []
        self.asked = ORIGIN
        self.done: list[str] = []
        self.contact: Contact | None = None
        self.fields: dict[str, Any] = {}
        self.steps: Generator[Any, Any, Grant] | None = None

    def run(self, lines: list[str]) -> None:
        for line in lines:
            if line.startswith(">? "):
                continue
            if line.startswith("> "):
                assert self.done, f"{line!r} was not done"
                self.match(line[2:], self.done.pop(0))
                continue
            assert not self.done, f"before {line!r}: {self.done}"
            at, what, rest = f"{line} ".split(" ", 2)
            self.happen(ORIGIN + int(at) / 1000, what, rest.strip())
        assert not self.done

    def happen(self, now: float, what: str, rest: str) -> None:
        if what == "policy":
            told = json.loads(rest)
            self.policy = (
                Fail(told["fail_after_ms"] / 1000)
                if "fail_after_ms" in told
                else SafeRate(1, per=told["safe_rate_ms"] / 1000, after=told["after_ms"] / 1000)
            )
        elif what == "ask":
            self.ask(now, json.loads(rest))
        elif what == "answer":
            self.go(now, Reply(self.asked, {"id": self.ids[-1], **json.loads(rest)}))
        elif what == "silence":
            self.go(now, Failure("it was silent"))
        elif what == "hangup":
            self.go(now, Failure("it hung up", is_hangup=True))
        elif what == "freeze":
            assert self.contact is not None
            length, _, frozen = rest.partition(" ")
            buckets = frozenset((limit, key) for limit, key in json.loads(frozen or "[]"))
            self.contact.freeze(now, now + int(length) / 1000, buckets)
        else:
            assert what == "wake"
            self.go(now, None)

    def ask(self, now: float, fields: dict[str, Any]) -> None:
        self.contact = Contact("api", self.policy, Random(self.seed), lambda _: None)
        wait, age = fields.pop("max_wait_ms", None), fields.pop("age_ms", 0) / 1000
        fields.setdefault("mode", "reserve")  # As on the wire.
        self.fields = fields
        ask = Ask(fields, self.contact, self.new_id, now, age, None if wait is None else wait / 1000)
        self.steps = ask.steps(now)
        self.go(now, None)

    def new_id(self) -> str:
        self.ids.append(f"id-{len(self.ids) + 1}")
        return self.ids[-1]

    def go(self, now: float, event: Reply | Failure | None) -> None:
        """Gives the event, and notes all effects until the next one."""
        assert self.steps is not None
        sent: Any = None if not self.done and event is None and self.is_new() else (now, event)
        try:
            effect = self.steps.send(sent)
            while isinstance(effect, Tell):
                assert effect.settle["used"] is False
                self.done.append(f"give back {effect.settle['id'][3:]}")
                effect = self.steps.send((now, None))
            if isinstance(effect, Send):
                self.asked = now
                message = dict(effect.message)
                self.done.append(f"send {message.pop('id')[3:]} {json.dumps(message)}")
            else:
                assert isinstance(effect, Pause)
                self.done.append(f"pause {millis(effect.until)}")
        except StopIteration as ended:
            local = " local" if ended.value.id is None else ""
            by = f" by {ended.value.account}" if ended.value.account else ""
            way = f" in way {ended.value.way}" if ended.value.way else ""
            self.done.append(f"granted {millis(ended.value.start)}{local}{by}{way}")
            if ended.value.lease is not None:
                self.done.append(f"asked {json.dumps(ended.value.asked(self.fields))}")
        except Refused as refused:
            self.done.append(f"refused {refused.code}")
        except Unreachable:
            self.done.append("unreachable")

    def is_new(self) -> bool:
        import inspect

        assert self.steps is not None
        return inspect.getgeneratorstate(self.steps) == inspect.GEN_CREATED

    def match(self, expected: str, done: str) -> None:
        if expected.startswith(("send ", "asked ")):
            (what, fields), (was, told) = (parts(expected), parts(done))
            assert what == was and {**told, **fields} == told, f"{expected!r}: {done!r}"
        elif ".." in expected:
            word, span, *more = expected.split(" ")
            low, high = map(int, span.split(".."))
            was, at, *beside = done.split(" ")
            assert was == word and low - 1e-3 <= float(at) <= high + 1e-3 and beside == more, (expected, done)
        else:
            assert expected == done


def parts(effect: str) -> tuple[str, dict[str, Any]]:
    """What was sent or asked, and its fields."""
    what, brace, fields = effect.partition("{")
    return what, json.loads(brace + fields)


def millis(time: float) -> str:
    return f"{round(1000 * (time - ORIGIN), 3):g}"
