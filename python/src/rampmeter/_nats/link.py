"""Asks and settles over NATS, for one event loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from nats.aio.msg import Msg

from .._core.answer import Answer, answers_in, buckets, epoch_of, seconds, text
from .._core.ask import Failure, Reply
from .._core.contact import Contact
from .._drive.spans import TRACEPARENT
from .._http.pool import packed
from ..bounds import MAX_BATCH, MAX_UNSENT
from ..counters import Counters
from .address import NatsAddress
from .connection import Connection

WAITING: Final = 12.0
"""Seconds after which a scheduler that queues a request is doubted: it reports every five."""

AT_ONCE: Final = 2.0
"""Seconds after which a scheduler that has to answer at once is doubted."""

AHEAD: Final = 180_000
"""Milliseconds by which an event's epoch may be ahead of the wall clock."""

MAX_BATCHES: Final = 4096
"""Messages whose requests are remembered, for a server that reports *no responders* for one."""


class Message(NamedTuple):
    """A request or a renewal, as it is sent."""

    id: str
    text: bytes
    is_alone: bool = False
    """A body to price may be as long as a message."""
    trace: str | None = None


class Answering(Protocol):
    """What a task or a thread waits for."""

    def done(self) -> bool:
        """Whether no caller waits any more."""

    def set_result(self, result: Reply | Failure, /) -> None:
        """Ends the wait."""


@dataclass(slots=True)
class Waiting:
    """A request or a renewal without its last answer."""

    id: str
    resource: str
    answer: Answering
    silence: float
    timer: asyncio.TimerHandle | None = None
    asked: float = 0.0
    until: float = float("inf")


class Link:
    """Concurrent requests travel in one message; answers find their requests by their ids."""

    def __init__(self, address: NatsAddress, contact: Callable[[str], Contact], counters: Counters) -> None:
        self._prefix = address.prefix
        self._contact = contact
        self._counters = counters
        self._loop = asyncio.get_running_loop()
        self._connection = Connection(address, self._lost, self._flush_soon)
        self._inbox = ""
        self._waiting: dict[str, Waiting] = {}
        self._batches: dict[int, list[str]] = {}
        self._number = 0
        self._asks: dict[str, list[Message]] = {}
        self._renewals: dict[str, list[Message]] = {}
        self._listening: set[str] = set()
        self._flush: asyncio.Task[None] | None = None
        self.unsent: deque[tuple[str, dict[str, Any]]] = deque(maxlen=MAX_UNSENT)

    async def ask(self, resource: str, message: Mapping[str, Any], until: float) -> Reply | Failure:
        """The last answer to one request, or why there is none in time.

        Raises:
            RampmeterError: If asking again is useless.
        """
        why = await self._ready(resource, until - time.monotonic())
        if why is not None:
            return Failure(why)
        answer: asyncio.Future[Reply | Failure] = self._loop.create_future()
        self._begin_ask(resource, message, until, answer)
        try:
            return await answer
        finally:
            self.forget(message["id"])

    def begin(self, resource: str, message: Mapping[str, Any], until: float, answer: Answering) -> bool:
        """The same for a thread that waits for `answer`. False if `ask` has to connect first."""
        is_ready = self._connection.is_up and resource in self._listening
        if is_ready:
            self._begin_ask(resource, message, until, answer)
        return is_ready

    def _unheard(self, waiting: Waiting) -> None:
        self._end(waiting, Failure(self._connection.denied or "nothing was heard in time"))

    def forget(self, id: str) -> None:
        """Forgets a request: no caller waits for its answer any more."""
        if (waiting := self._waiting.pop(id, None)) is not None and waiting.timer is not None:
            waiting.timer.cancel()

    async def settle(self, resource: str, settles: Sequence[Mapping[str, Any]]) -> list[Answer] | Failure:
        """The answers to renewals, or why there are none."""
        why = await self._ready(resource, AT_ONCE)
        if why is not None:
            return Failure(why)
        answers: list[asyncio.Future[Reply | Failure]] = [self._loop.create_future() for _ in settles]
        for settle, answer in zip(settles, answers, strict=True):
            self._renewals.setdefault(resource, []).append(Message(settle["id"], packed([settle])))
            self._wait_on(Waiting(settle["id"], resource, answer, AT_ONCE))
        self._flush_soon()
        replies = [await answer for answer in answers]
        failures = [reply for reply in replies if isinstance(reply, Failure)]
        return failures[0] if failures else [reply.answer for reply in replies if isinstance(reply, Reply)]

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Sends a settle with the next message, in this turn of the loop."""
        self.unsent.append((resource, settle))
        self._flush_soon()

    async def flush(self, within: float) -> None:
        """Sends what waits to be sent."""
        self._flush_soon()
        if self._flush is not None:
            await asyncio.wait([self._flush], timeout=within)
        await self._connection.flush(within)

    async def close(self) -> None:
        """Ends the connection."""
        self._lost()
        await self._connection.close()

    async def _ready(self, resource: str, within: float) -> str | None:
        why = await self._connection.ready(within)
        if why is None:
            if not self._inbox:
                self._inbox = self._connection.inbox()
                await self._connection.subscribe(f"{self._inbox}.*", self._answered)
            await self._connection.subscribe(f"{self._prefix}.event.{resource}", self._news)
            self._listening.add(resource)
        return why

    def _begin_ask(self, resource: str, message: Mapping[str, Any], until: float, answer: Answering) -> None:
        is_patient, id = message["mode"] == "wait", message["id"]
        asked = {**message, "progress": True} if is_patient else message
        self._asks.setdefault(resource, []).append(
            Message(id, packed([asked]), "price" in message, message.get(TRACEPARENT))
        )
        silence = WAITING if is_patient else AT_ONCE
        waiting = Waiting(id, resource, answer, silence, asked=time.monotonic(), until=until)
        # A scheduler that is there says at once that the request waits.
        self._wait_on(waiting, min(silence, self._contact(resource).patience))
        self._flush_soon()

    def _wait_on(self, waiting: Waiting, silence: float | None = None) -> None:
        """The silence begins anew."""
        self._waiting[waiting.id] = waiting
        if waiting.timer is not None:
            waiting.timer.cancel()
        left = min(silence or waiting.silence, waiting.until - time.monotonic())
        waiting.timer = self._loop.call_later(max(0.0, left), self._unheard, waiting)

    def _end(self, waiting: Waiting, end: Reply | Failure) -> None:
        self.forget(waiting.id)
        if not waiting.answer.done():
            waiting.answer.set_result(end)

    def _flush_soon(self) -> None:
        """Everything of this turn of the loop travels together."""
        if self._flush is None or self._flush.done():
            self._flush = self._loop.create_task(self._send())

    async def _send(self) -> None:
        while (self.unsent or self._renewals or self._asks) and self._connection.is_up:
            await self._send_settles()
            for kind, outbox in (("settle", self._renewals), ("permit", self._asks)):
                for resource in list(outbox):
                    for batch in batches(outbox.pop(resource)):
                        await self._send_batch(kind, resource, batch)

    async def _send_settles(self) -> None:
        by_resource: dict[str, list[dict[str, Any]]] = {}
        while self.unsent:
            resource, settle = self.unsent.popleft()
            by_resource.setdefault(resource, []).append(settle)
        for resource, settles in by_resource.items():
            for begin in range(0, len(settles), MAX_BATCH):
                batch = settles[begin : begin + MAX_BATCH]
                traces = [settle.get(TRACEPARENT) for settle in batch]
                if await self._connection.publish(f"{self._prefix}.settle.{resource}", packed(batch), "", traces):
                    self._counters.add(settled=len(batch))
                else:
                    self.unsent.extend((resource, settle) for settle in batch)
                    return

    async def _send_batch(self, kind: str, resource: str, messages: Sequence[Message]) -> None:
        live = [message for message in messages if message.id in self._waiting]
        if not live:
            return
        self._number += 1
        ids, now = [message.id for message in live], time.monotonic()
        for id in ids:
            self._waiting[id].asked = now
        self._batches[self._number] = ids
        if len(self._batches) > MAX_BATCHES:
            del self._batches[next(iter(self._batches))]
        texts = [message.text for message in live]
        payload = texts[0] if len(texts) == 1 else b"[%s]" % b",".join(texts)
        reply = f"{self._inbox}.{self._number}"
        traces = [message.trace for message in live]
        if not await self._connection.publish(f"{self._prefix}.{kind}.{resource}", payload, reply, traces):
            self._fail_all(ids, "the connection to NATS is lost")

    def _fail_all(self, ids: Sequence[str], why: str) -> None:
        for id in ids:
            if (waiting := self._waiting.get(id)) is not None:
                self._end(waiting, Failure(why))

    def _lost(self) -> None:
        self._fail_all(list(self._waiting), "the connection to NATS is lost")

    async def _answered(self, message: Msg) -> None:
        batch = message.subject.rsplit(".", 1)[1]
        ids = self._batches.get(int(batch), []) if batch.isdecimal() else []
        if not message.data and (message.headers or {}).get("Status") == "503":
            return self._fail_all(ids, "no scheduler of this resource is there")
        for answer in answers_in(message.data):
            named = text(answer, "id")
            for id in [named] if named is not None else ids:
                if (waiting := self._waiting.get(id)) is not None:
                    self._take(waiting, answer)

    def _take(self, waiting: Waiting, answer: Answer) -> None:
        if text(answer, "status") != "queued":
            self._end(waiting, Reply(waiting.asked, answer))
        elif self._contact(waiting.resource).heard(time.monotonic(), epoch_of(answer)):
            self._wait_on(waiting)
        else:
            self._end(waiting, Failure("a scheduler that no longer leads has answered"))

    async def _news(self, message: Msg) -> None:
        """Handles an event. A message that wants a reply is none: JetStream has delivered it."""
        resource = message.subject.rsplit(".", 1)[1]
        try:
            news = json.loads(message.data)
        except ValueError:
            return
        if message.reply or not isinstance(news, dict):
            return
        now, epoch = time.monotonic(), epoch_of(news)
        if epoch > time.time() * 1000 + AHEAD or not self._contact(resource).heard(now, epoch, is_event=True):
            return
        if text(news, "event") == "leader":
            ids = [id for id, waiting in self._waiting.items() if waiting.resource == resource]
            self._fail_all(ids, "a new leader asks for all requests again")
        elif text(news, "event") == "freeze":
            self._contact(resource).freeze(now, now + (seconds(news, "for_ms") or 0.0), buckets(news, "buckets"))


def batches(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """What travels together, in the order of asking."""
    together: list[Message] = []
    for message in messages:
        if together and (message.is_alone or together[0].is_alone or len(together) == MAX_BATCH):
            yield together
            together = []
        together.append(message)
    if together:
        yield together
