"""One request for a permit, from the first sending to the start of the call."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..errors import NotInTime, RampmeterError, Refused, Unreachable
from .answer import Answer, Buckets, buckets, epoch_of, seconds, text
from .answer import number as number_of
from .contact import Contact
from .lateness import Stamped

Mode: TypeAlias = Literal["wait", "allow", "reserve"]

LOCAL_VALID: Final = 1.0
"""Seconds for which a local permit is valid. A longer-lived one could be used with the next."""

MIN_VALID: Final = 0.001
"""No thread wakes up faster: a permit that lapses sooner is useless."""

ROUNDING: Final = 1e-3
"""Milliseconds that a difference of two floats may be off."""

USED_UP: Final = frozenset(["lapsed", "already_settled", "unknown_permit", "id_in_use"])
"""Refusals of an id that can have no permit any more."""

MAX_RENAMED: Final = 100
"""The most ids of one request. Beyond it, another id does not help."""


class Send(NamedTuple):
    """Send this request, and wait for its last answer, at most until then."""

    message: Mapping[str, Any]
    until: float


class Pause(NamedTuple):
    """Wait until then."""

    until: float


class Tell(NamedTuple):
    """Send this settle, and do not wait."""

    settle: Mapping[str, Any]


Effect: TypeAlias = Send | Pause | Tell


class Reply(NamedTuple):
    """An answer to a sending that was not before `asked`."""

    asked: float
    answer: Answer


class Failure(NamedTuple):
    """No answer has come, and why."""

    why: str
    is_hangup: bool = False
    """Whether a front may have had the request. It gives back permits of clients that hang up."""


class Grant(NamedTuple):
    """The right to start one call at `start`, all times in seconds on the client's clock."""

    id: str | None
    since: float
    received: float
    start: float
    valid: float | None
    lease: float | None
    limited_by: str | None
    left: tuple[Mapping[str, Any], ...]
    cost: Mapping[str, float] | None = None
    """What the call costs, if the scheduler has computed it."""
    charged: Buckets = frozenset()
    """The buckets that a start ahead is charged to."""
    account: str | None = None
    """The account that makes the call, if the resource has accounts."""
    way: int = 0
    """The entry of `any_of` that was chosen, from 1; 0 for the call as described."""

    def asked(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """What a request of these `fields` takes of the limits, by the way and the account that were chosen."""
        ways: list[dict[str, Any]] = [{}, *fields.get("any_of", ())]
        way = ways[self.way] if self.way < len(ways) else {}
        replaced = way.get("labels", {})
        kept = {key: value for key, value in fields.get("labels", {}).items() if key not in replaced}
        labels = {**kept, **{key: value for key, value in replaced.items() if value}}
        if self.account is not None:
            labels["account"] = self.account
        asked = {"cost": way.get("cost") or self.cost or fields.get("cost"), "labels": labels}
        return {name: value for name, value in asked.items() if value}

    def lapses(self) -> float:
        """The time from which on it may not be used."""
        return float("inf") if self.valid is None else self.start + self.valid


Steps: TypeAlias = Generator[Effect, "tuple[float, Reply | Failure | None]", Grant]


class Ask:
    """What is asked for. `steps` is run once, by one driver.

    Attributes:
        id: The present id, a secret: a random UUID.
        resent: How often it was sent again.
    """

    def __init__(
        self,
        fields: Mapping[str, Any],
        contact: Contact,
        new_id: Callable[[], str],
        now: float,
        age: float = 0.0,
        max_wait: float | None = None,
    ) -> None:
        self._fields = fields
        self._mode: Mode = fields["mode"]
        self._contact = contact
        self._new_id = new_id
        self._since = now - age
        self._began = now
        self._deadline = float("inf") if max_wait is None else now + max_wait
        self._late: float | None = None
        self._limited_by: str | None = None
        self._why_silent: str | None = None
        self._renamed = 0
        self.resent = 0
        self.id = new_id()
        self._is_open = False
        """Whether a scheduler may have charged the present id."""

    def steps(self, now: float) -> Steps:
        """Asks until the call may start. A reservation ends this before its start.

        Raises:
            Refused: If a scheduler refuses, or the deadline comes first.
            Unreachable: If no scheduler answers, and the policy is not to wait.
        """
        while True:
            grant = yield from self._granted(now)
            now = grant.received
            if self._mode == "reserve":
                return grant
            if grant.start > now:
                now, _ = yield Pause(grant.start)
            if now < grant.lapses() and not self._contact.voids(grant.received, grant.start, grant.charged):
                return grant
            if grant.id is not None:
                yield Tell(unused(grant.id))
            self._rename()

    def abandoned(self, error: BaseException) -> dict[str, Any] | None:
        """The settle that gives back what may be charged, after `steps` has ended with an error.

        A caller may give up at any time. What a transport refuses to send is charged nothing.
        """
        return unused(self.id) if self._is_open and not isinstance(error, RampmeterError) else None

    def _granted(self, now: float) -> Steps:
        owed = now
        while True:
            if now >= self._deadline:
                yield from self._withdraw()
                raise self._timed_out(now)
            if self._contact.may_try(now):
                now, reply = yield self._send(now)
                if isinstance(reply, Reply) and not is_of_none(reply.answer):
                    owed, self._why_silent = now, None
                    taken = yield from self._taken(now, reply)
                    if isinstance(taken, Grant):
                        return taken
                    now = taken
                    continue
                if isinstance(reply, Failure) and reply.is_hangup:
                    yield from self._withdraw()
                    self._rename()
                self._why_silent = why_of(reply)
                self._contact.failed(now, owed, self._why_silent)
            if (yield from self._is_local(now)):
                yield from self._withdraw()
                return Grant(None, self._since, now, now, LOCAL_VALID, None, None, ())
            now, _ = yield Pause(min(self._contact.next_attempt(now), self._deadline))

    def _is_local(self, now: float) -> Generator[Effect, Any, bool]:
        """Whether the call may start now without a scheduler."""
        try:
            return self._contact.is_local(now, self._mode != "allow")
        except Unreachable:
            yield from self._withdraw()
            raise

    def _taken(self, now: float, reply: Reply) -> Generator[Effect, Any, Grant | float]:
        """The grant in the reply, or when to go on asking."""
        answer, epoch = reply.answer, epoch_of(reply.answer)
        code = text(answer, "code")
        is_granted, delay = text(answer, "status") == "granted", seconds(answer, "delay_ms")
        # A grant that does not say when the call starts is no permit.
        is_useless = is_granted and delay is None
        if not self._contact.heard(now, epoch) or code == "unavailable" or is_useless:
            return (yield from self._later(now))
        if is_granted and delay is not None:
            return (yield from self._start(now, reply, epoch, delay))
        if code in USED_UP and self._renamed < MAX_RENAMED:
            if code == "lapsed":
                yield Tell(unused(self.id))
            self._rename()
            return (yield from self._later(now))
        self._contact.succeeded()
        after = seconds(answer, "retry_after_ms")
        if code == "queue_full" and self._mode == "wait" and after is not None:
            then = now + after * (1 + self._contact.jitter() / 4)
            if then < self._deadline:
                woken: tuple[float, object] = yield Pause(then)
                return woken[0]
        self._is_open = False
        raise refusal(answer)

    def _later(self, now: float) -> Generator[Effect, Any, float]:
        """Pauses as after a failure: many requests may have the same reason to be sent again."""
        woken: tuple[float, object] = yield Pause(min(self._contact.put_off(now), self._deadline))
        return woken[0]

    def _start(self, now: float, reply: Reply, epoch: int, delay: float) -> Generator[Effect, Any, Grant | float]:
        answer = reply.answer
        self._contact.succeeded()
        valid = seconds(answer, "valid_ms")
        stamped = Stamped(reply.asked, now, number_of(answer, "at_ms"), epoch)
        wait, self._late = self._contact.base_delay.start(stamped, delay, self._late)
        if wait is None or (valid is not None and valid < MIN_VALID):
            yield Tell(unused(self.id))
            self._rename()
            return (yield from self._later(now))
        lease, limited_by = seconds(answer, "lease_ms"), text(answer, "limited_by")
        left = answer.get("left")
        seen = tuple(left) if isinstance(left, list) else ()
        start = now + wait
        told = answer.get("cost")
        cost = told if isinstance(told, dict) else None
        charged, account = buckets(answer, "charged"), text(answer, "account")
        way = int(number_of(answer, "way") or 0)
        return Grant(self.id, self._since, now, start, valid, lease, limited_by, seen, cost, charged, account, way)

    def _send(self, now: float) -> Send:
        self.resent += self._is_open
        self._is_open = True
        message = {"id": self.id, **self._fields}
        # Rounded down: an age is a claim to a place in the queue.
        if (age := int(1000 * (now - self._since) + ROUNDING)) > 0:
            message["age_ms"] = age
        if self._deadline != float("inf") and self._mode != "allow":
            message["max_wait_ms"] = round(1000 * max(0.0, self._deadline - now), 3)
        if (epoch := self._contact.epoch()) is not None:
            message["epoch"] = epoch
        return Send(message, self._deadline)

    def _rename(self) -> None:
        """Goes on under another id: the scheduler refuses one that was given back."""
        self._renamed += 1
        self.id = self._new_id()
        self._is_open = False

    def _withdraw(self) -> Generator[Effect, Any, None]:
        if self._is_open:
            yield Tell(unused(self.id))
            self._is_open = False

    def _timed_out(self, now: float) -> NotInTime:
        waited = now - self._began
        advice = "give it a longer max_wait, or ask for less"
        if self._why_silent is not None:
            advice = f"no scheduler answers: {self._why_silent}"
        return NotInTime("not_in_time", f"no permit within {waited:.3g} s; {advice}", None, self._limited_by)


def is_of_none(answer: Answer) -> bool:
    """Whether a front says that it has found no scheduler."""
    return text(answer, "code") == "unavailable" and epoch_of(answer) == 0


def why_of(reply: Reply | Failure | None) -> str:
    """Why there is no answer, for people."""
    if isinstance(reply, Reply):
        return text(reply.answer, "message") or "no scheduler answers"
    return reply.why if reply else "nothing was heard"


def unused(id: str) -> dict[str, Any]:
    """The settle that gives back `id`."""
    return {"id": id, "used": False}


def refusal(answer: Answer) -> Refused:
    """The error for a refusal."""
    code, message = (text(answer, "code") or "unknown", text(answer, "message") or "no reason was given")
    kind = NotInTime if code == "not_in_time" else Refused
    return kind(code, message, seconds(answer, "retry_after_ms"), text(answer, "limited_by"))
