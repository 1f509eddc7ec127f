"""Limits for unit tests, without a server and without a wait: `with rampmeter.testing.limits({"api": "10/s"}) as t:`.

Example:
    >>> import rampmeter
    >>> api = rampmeter.connect("http://127.0.0.1:9480").resource("api")
    >>> with limits({"api": "2/s"}) as t:
    ...     for _ in range(4):
    ...         with api.permit() as permit:
    ...             permit.settle(200)
    ...     [granted.waited for granted in t.permits], t.now()
    ([0.0, 0.0, 0.5, 0.5], 1.0)
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from . import client
from ._core.answer import Answer
from ._core.ask import Reply
from ._drive import clock
from ._drive.blocking import blocking
from ._drive.process import Process
from .errors import InvalidArgument
from .outcome import THROTTLED

Rates: TypeAlias = "str | Mapping[str, str]"
"""Such as `"10/s"` or `"500/2m"` for requests, or one for each unit."""

RATE: Final = re.compile(r"(\d+(?:\.\d+)?)/(\d*)([smhd])")
SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
PAUSE: Final = 1.0
"""Seconds without a start after a 429 that names no time."""


@dataclass
class Granted:
    """A permit that was granted; one that was given back cost nothing.

    Attributes:
        resource: The name of the resource.
        cost: What it cost by units: as asked for, and then as settled.
        class_: The priority class.
        labels: The labels of the request.
        not_accounts: The accounts that may not make the call. The limits of a block have no accounts.
        waited: Seconds from the request to the start of the call.
        status: The status that it was settled with.
    """

    resource: str
    cost: dict[str, float]
    class_: str | None
    labels: Mapping[str, str]
    not_accounts: Sequence[str]
    waited: float
    status: int | None = None


class Limits:
    """The limits of a block, and the permits that were granted there.

    Time goes on when a program waits for a permit, or by `advance`, and not by itself.
    """

    def __init__(self, rates: Mapping[str, Rates] | None) -> None:
        self.permits: list[Granted] = []
        self._rates = None if rates is None else {name: _units(given) for name, given in rates.items()}
        self._levels: dict[tuple[str, str], float] = {}
        self._by_id: dict[str, Granted] = {}
        self._paused_until: dict[str, float] = {}
        self._now = 0.0
        self._lock = threading.RLock()

    def now(self) -> float:
        """Seconds since the block has begun, as its programs see them."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        with self._lock:
            self._now += seconds
            for (resource, unit), level in self._levels.items():
                capacity, rate = self._limits_of(resource)[unit]
                self._levels[resource, unit] = min(capacity, level + rate * seconds)

    async def _asleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)

    def _limits_of(self, resource: str) -> Mapping[str, tuple[float, float]]:
        return {} if self._rates is None else self._rates[resource]

    def _ask(self, resource: str, message: Mapping[str, Any]) -> Answer:
        if self._rates is not None and resource not in self._rates:
            return _refused("unknown_resource", f"`limits` of rampmeter.testing has none of the name {resource!r}")
        cost, delays = message.get("cost") or {"requests": 1}, dict[str | None, float]({None: 0.0})
        delays["pause"] = self._paused_until.get(resource, 0.0) - self._now
        for unit, (capacity, rate) in self._limits_of(resource).items():
            amount, level = cost.get(unit, 0.0), self._levels.setdefault((resource, unit), capacity)
            if amount > capacity:
                return _refused("never_fits", f"{amount:g} {unit} of {capacity:g}")
            delays[unit] = (amount - level) / rate
        limited_by, delay = max(delays.items(), key=lambda each: each[1])
        longest = 0.0 if message["mode"] == "allow" else message.get("max_wait_ms", float("inf")) / 1000
        if delay > longest:
            return _refused("not_in_time", f"the earliest start is in {delay:g} s", 1000 * (delay - longest))
        class_, labels, excluded = message.get("class"), message.get("labels", {}), message.get("not", [])
        granted = Granted(resource, dict(cost), class_, labels, excluded, round(delay, 6))
        self._by_id[message["id"]] = granted
        self.permits.append(granted)
        self._charge(resource, cost)
        told = {"delay_ms": 1000 * delay, "limited_by": limited_by, "epoch": 1}
        return {"status": "granted", "id": message["id"], **told}

    def _settle(self, resource: str, settle: Mapping[str, Any]) -> Answer:
        if (granted := self._by_id.pop(settle["id"], None)) is not None:
            used = {**granted.cost, **settle.get("cost", {})} if settle["used"] else dict.fromkeys(granted.cost, 0.0)
            self._charge(resource, {unit: amount - granted.cost.get(unit, 0.0) for unit, amount in used.items()})
            response = settle.get("response", {})
            granted.cost, granted.status = used, response.get("status")
            if granted.status == THROTTLED:
                after = response["headers"].get("retry-after", "")
                self._paused_until[resource] = self._now + (float(after) if after.isdigit() else PAUSE)
        return {"status": "settled", "id": settle["id"], "epoch": 1}

    def _charge(self, resource: str, cost: Mapping[str, float]) -> None:
        for unit, (capacity, _) in self._limits_of(resource).items():
            level = self._levels.get((resource, unit), capacity) - cost.get(unit, 0.0)
            self._levels[resource, unit] = min(capacity, level)


class _Transport:
    """A transport to the limits of a block."""

    def __init__(self, limits: Limits, process: Process) -> None:
        self._limits, self._process = limits, process
        self.unsent: deque[tuple[str, dict[str, Any]]] = deque()

    async def ask(self, resource: str, message: Mapping[str, Any], until: float) -> Reply:
        await self.flush(0)
        with self._limits._lock:
            return Reply(self._limits.now(), self._limits._ask(resource, message))

    async def settle(self, resource: str, settles: Sequence[Mapping[str, Any]]) -> list[Answer]:
        with self._limits._lock:
            return [self._limits._settle(resource, settle) for settle in settles]

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        self._process.settled(resource, blocking(self.settle(resource, [settle]))[0])

    async def flush(self, within: float) -> None:
        while self.unsent:
            self.tell(*self.unsent.popleft())

    async def close(self) -> None:
        await self.flush(0)


@contextmanager
def limits(rates: Mapping[str, Rates] | None = None) -> Iterator[Limits]:
    """Has all clients of this process ask these limits instead of a scheduler, and wait in no time.

    Calls are made as their requests describe them, and in no other way (`or_`).

    Args:
        rates: The rate of each resource, such as `{"api": "10/s"}` or
            `{"model": {"requests": "500/m", "tokens": "200000/m"}}`. Without it every permit is
            immediate, whatever the resource.

    Raises:
        InvalidArgument: If a rate is none.
    """
    here = Limits(rates)

    sides = {each: each._exchange() for each in list(client.CLIENTS)}
    before = client.stand_in, clock.now, clock.sleep, clock.asleep
    client.stand_in, clock.now, clock.sleep, clock.asleep = (
        partial(_Transport, here),
        here.now,
        here.advance,
        here._asleep,
    )
    try:
        yield here
    finally:
        client.stand_in, clock.now, clock.sleep, clock.asleep = before
        for each in list(client.CLIENTS):
            each._exchange(sides.get(each))


def _units(rates: Rates) -> dict[str, tuple[float, float]]:
    """The capacity and the refill in a second of each unit."""
    found = {}
    for unit, rate in ({"requests": rates} if isinstance(rates, str) else rates).items():
        if (told := RATE.fullmatch(rate)) is None or not float(told[1]) * int(told[2] or 1):
            raise InvalidArgument(f"{unit}: a rate is such as '10/s', '500/m' or '100/2h', not {rate!r}")
        found[unit] = float(told[1]), float(told[1]) / int(told[2] or 1) / SECONDS[told[3]]
    return found


def _refused(code: str, message: str, after_ms: float | None = None) -> Answer:
    again = {} if after_ms is None else {"retry_after_ms": after_ms}
    return {"status": "refused", "code": code, "message": message, "epoch": 1, **again}
