"""The connections of one event loop."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .._core.answer import Answer
from .._core.ask import Failure, Reply
from ..bounds import MAX_UNSENT
from ..errors import RampmeterError
from .address import Address
from .connection import CONNECT, KEEPALIVE, NotConnected
from .meaning import answers_of, fault
from .message import Response, get, post
from .pool import FAULTS, MAX_IDLE, QUIET, packed, take_batch
from .stream import Stream

NOT_SENT: Final = Failure("not sent")


class Streams:
    """Asks and settles over HTTP. Belongs to one event loop."""

    def __init__(self, address: Address, on_settled: Callable[[str, Answer], None]) -> None:
        self._address = address
        self._on_settled = on_settled
        self._idle: list[Stream] = []
        self._open: set[Stream] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flushing = False
        self.unsent: deque[tuple[str, dict[str, Any]]] = deque(maxlen=MAX_UNSENT)

    async def ask(self, resource: str, message: Mapping[str, Any], until: float) -> Reply | Failure:
        """The answer to one request, or why there is none in time.

        Raises:
            RampmeterError: If asking again is useless.
        """
        self._send_unsent()
        body = packed([message])
        asked = time.monotonic()
        answers = await self._answers(f"/v1/permit/{resource}", body, until)
        return answers if isinstance(answers, Failure) else Reply(asked, answers[0])

    async def settle(self, resource: str, settles: Sequence[Mapping[str, Any]]) -> list[Answer] | Failure:
        """The answers to settles, or why there are none."""
        return await self._answers(f"/v1/settle/{resource}", packed(settles), time.monotonic() + CONNECT)

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Sends a settle, and waits for nothing. It is repeated if its connection ends."""
        stream = self._take_idle()
        if stream is None:
            self.unsent.append((resource, settle))
            return self._send_unsent()
        body = packed([settle])

        def settled(response: Response | None) -> None:
            self._settled(resource, settle, response)

        stream.ask(post(self._address, f"/v1/settle/{resource}", body), settled)
        self._keep(stream)

    async def flush(self, within: float) -> None:
        """Sends what waits, and waits for the answers to settles, for at most `within` seconds."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            self._send_unsent()
            if not self._tasks and not any(stream.owes for stream in self._idle):
                if not self.unsent:
                    return
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.002)

    async def aclose(self) -> None:
        """Closes all connections."""
        for task in list(self._tasks):
            task.cancel()
        for stream in list(self._open):
            stream.close()
        self._open.clear()
        self._idle.clear()

    def _settled(self, resource: str, settle: dict[str, Any], response: Response | None) -> None:
        try:
            answers = NOT_SENT if response is None else answers_of(self._address, response)
        except RampmeterError as error:
            answers = [{"status": "refused", "code": "invalid_request", "message": str(error)}]
        if isinstance(answers, Failure) or answers[0].get("code") == "unavailable":
            self.unsent.append((resource, settle))
        else:
            self._on_settled(resource, answers[0])

    def _send_unsent(self) -> None:
        """Sends the settles that wait in a task of their own, one at a time."""
        if self.unsent and not self._flushing:
            self._flushing = True
            task = asyncio.get_running_loop().create_task(self._flush_unsent())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _flush_unsent(self) -> None:
        try:
            while batch := take_batch(self.unsent):
                resource, settles = batch
                answers: list[Answer] | Failure = NOT_SENT
                try:
                    answers = await self.settle(resource, settles)
                except RampmeterError as error:
                    answers = [{"status": "refused", "code": "invalid_request", "message": str(error)}]
                finally:
                    if isinstance(answers, Failure) or any(answer.get("code") == "unavailable" for answer in answers):
                        self.unsent.extendleft((resource, settle) for settle in reversed(settles))
                        answers = NOT_SENT
                if isinstance(answers, Failure):
                    return
                for answer in answers:
                    self._on_settled(resource, answer)
        finally:
            self._flushing = False

    async def _answers(self, path: str, body: bytes, until: float) -> list[Answer] | Failure:
        try:
            return answers_of(self._address, await self._exchange(path, body, until))
        except FAULTS as error:
            return fault(self._address, error)

    async def _exchange(self, path: str, body: bytes, until: float) -> Response:
        """One response. A kept connection that has ended meanwhile is replaced once."""
        while True:
            stream = self._take_idle() or await self._connected(until - time.monotonic())
            was_kept = not stream.is_fresh
            answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
            stream.ask(post(self._address, path, body), answer)
            try:
                response = await self._read(answer, until)
            except ConnectionError:
                if was_kept:
                    continue
                raise
            finally:
                if not answer.done() or answer.cancelled():
                    stream.close()
                elif answer.exception() is None:
                    self._keep(stream)
                self._forget_closed(stream)
            return response

    async def _read(self, answer: asyncio.Future[Response], until: float) -> Response:
        """Waits as long as it takes, but not for a front that is gone."""
        while True:
            left = until - time.monotonic()
            done, _ = await asyncio.wait([answer], timeout=min(left, QUIET))
            if done:
                return answer.result()
            if left <= QUIET or not await self._is_there():
                raise TimeoutError("no answer in time")

    async def _is_there(self) -> bool:
        """Whether anything speaks HTTP at the address."""
        try:
            probe = await self._connected(CONNECT)
        except FAULTS:
            return False
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        try:
            probe.ask(get(self._address, "/healthz"), answer)
            done, _ = await asyncio.wait([answer], timeout=CONNECT)
            return bool(done) and answer.exception() is None
        finally:
            probe.close()
            self._forget_closed(probe)

    async def _connected(self, within: float) -> Stream:
        address, loop = self._address, asyncio.get_running_loop()
        connecting = loop.create_connection(Stream, address.host, address.port, ssl=address.tls)
        try:
            transport, stream = await asyncio.wait_for(connecting, max(0.001, min(within, CONNECT)))
        except (OSError, asyncio.TimeoutError) as error:
            raise NotConnected from error
        if (raw := transport.get_extra_info("socket")) is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE:
                if hasattr(socket, name):
                    raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._open.add(stream)
        return stream

    def _take_idle(self) -> Stream | None:
        while self._idle:
            stream = self._idle.pop()
            if not stream.is_closed:
                return stream
            self._forget_closed(stream)
        return None

    def _keep(self, stream: Stream) -> None:
        if stream.is_closed:
            self._forget_closed(stream)
        elif len(self._idle) < MAX_IDLE or stream.owes:
            self._idle.append(stream)
        else:
            stream.close()
            self._open.discard(stream)

    def _forget_closed(self, stream: Stream) -> None:
        if stream.is_closed:
            self._open.discard(stream)
