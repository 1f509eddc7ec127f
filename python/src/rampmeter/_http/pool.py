"""The connections of a process's threads, or of one event loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from .._core.answer import Answer
from .._core.ask import Failure, Reply, is_of_none
from .._drive.blocking import blocking
from .._drive.spans import TRACEPARENT
from ..bounds import MAX_BATCH, MAX_REQUEST, MAX_UNSENT
from ..errors import InvalidArgument, NotRampmeter, RampmeterError
from ..outcome import THROTTLED
from .address import Address
from .connection import CONNECT, Connection, NotConnected, connect_socket, connect_stream
from .meaning import answers_of, fault
from .message import NotHttp, Response, get, post

QUIET: Final = 12.0
"""Seconds after which a long poll is doubted: the front is asked whether it is there."""

MAX_IDLE: Final = 64
"""Connections that are kept for later. More requests at once than that have a connection each time."""

MAX_OWED: Final = 16
"""Settles on one connection whose answers are unread. More would fill its buffers."""

ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
"""Circular bodies are found by their depth: a search for circles takes a fifth of the time."""

FAULTS: Final = (OSError, NotHttp)

NOT_SENT: Final = Failure("not sent")


class Pool:
    """Asks and settles over HTTP.

    Lists and deques are the only shared state: their operations are atomic, so that no lock can be
    held over a `fork` or by a destructor.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        on_settled: Callable[[str, Answer], None],
        connect: Callable[[Address, float], Awaitable[Connection]],
    ) -> None:
        self._address = addresses[0]
        """The one that is asked, until it fails."""
        self._next = dict(zip(addresses, [*addresses[1:], addresses[0]], strict=True))
        self._on_settled = on_settled
        self._connect = connect
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self.unsent: deque[tuple[str, dict[str, Any]]] = deque(maxlen=MAX_UNSENT)

    async def ask(self, resource: str, message: Mapping[str, Any], until: float) -> Reply | Failure:
        """The answer to one request, or why there is none in time.

        Raises:
            RampmeterError: If asking again is useless.
        """
        await self._catch_up()
        asked = time.monotonic()
        answers = await self._post("permit", resource, [message], until)
        return answers if isinstance(answers, Failure) else Reply(asked, answers[0])

    async def settle(self, resource: str, settles: Sequence[Mapping[str, Any]]) -> list[Answer] | Failure:
        """The answers to settles, or why there are none."""
        return await self._post("settle", resource, settles, time.monotonic() + CONNECT)

    async def flush(self, within: float) -> None:
        """Sends what waits, and reads the answers to settles, for at most `within` seconds."""
        until = time.monotonic() + within
        await self._send_unsent(until)
        for connection in list(self._idle):
            try:
                self._idle.remove(connection)
            except ValueError:
                continue
            with suppress(*FAULTS), self._used(connection):
                await self._read_owed(connection, until)
        await self._send_unsent(until)

    async def close(self) -> None:
        """Closes all connections. Requests under way end with an error."""
        for connection in list(self._open):
            self._drop(connection)
        self._idle.clear()

    async def _catch_up(self) -> None:
        """Has settles sent that wait."""
        raise NotImplementedError

    async def _post(
        self, kind: str, resource: str, messages: Sequence[Mapping[str, Any]], until: float
    ) -> list[Answer] | Failure:
        """The answers of the present address. Another one is asked next, if it has none."""
        body, address = packed(messages), self._address
        try:
            data = post(address, f"/v1/{kind}/{resource}", body, messages[0].get(TRACEPARENT))
            answers = await self._answers(address, data, until)
        except NotRampmeter as error:
            if len(self._next) == 1:
                raise
            answers = Failure(str(error))
        if isinstance(answers, Failure) or is_of_none(answers[0]):
            self._address = self._next[address]
        return answers

    async def _answers(self, address: Address, data: bytes, until: float) -> list[Answer] | Failure:
        try:
            return answers_of(address, await self._exchange(address, data, until))
        except FAULTS as error:
            return fault(address, error)

    async def _exchange(self, address: Address, data: bytes, until: float) -> Response:
        """One response. A kept connection that has ended meanwhile is replaced."""
        while True:
            connection = await self._taken(address, until - time.monotonic())
            was_kept = not connection.is_fresh
            try:
                with self._used(connection):
                    await connection.send(data)
                    await self._read_owed(connection, until)
                    return await self._read(connection, until)
            except ConnectionError:
                if not was_kept:
                    raise

    async def _read(self, connection: Connection, until: float) -> Response:
        """Waits as long as it takes, but not for a front that is gone."""
        while True:
            quiet = time.monotonic() + QUIET
            try:
                return await connection.read(min(until, quiet))
            except TimeoutError:
                if until <= quiet or not await self._is_there(connection.address):
                    raise

    async def _is_there(self, address: Address) -> bool:
        """Whether anything speaks HTTP at the address."""
        with suppress(*FAULTS):
            probe = await self._connect(address, CONNECT)
            try:
                await probe.send(get(address, "/healthz"))
                await probe.read(time.monotonic() + CONNECT)
                return True
            finally:
                probe.close()
        return False

    async def _taken(self, address: Address, within: float) -> Connection:
        with suppress(IndexError):
            while (kept := self._idle.pop()).address is not address:
                self._lose(kept)
            return kept
        connection = await self._connect(address, within)
        self._open.add(connection)
        return connection

    @contextmanager
    def _used(self, connection: Connection) -> Iterator[None]:
        """Keeps the connection for later, unless its use fails. Its settles may not have arrived then."""
        try:
            yield
        except BaseException:
            self._lose(connection)
            raise
        if connection.keeps and (len(self._idle) < MAX_IDLE or connection.owed):
            self._idle.append(connection)
        else:
            self._lose(connection)

    def _lose(self, connection: Connection) -> None:
        self.unsent.extend(connection.owed)
        connection.owed.clear()
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.close()

    async def _tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Sends a settle. Its answer is read before the next one on its connection."""
        body, address = packed([settle]), self._address
        try:
            connection = await self._taken(address, CONNECT)
            with self._used(connection):
                connection.owed.append((resource, settle))
                await connection.send(post(address, f"/v1/settle/{resource}", body, settle.get(TRACEPARENT)))
                # On another connection, the next request could overtake a 429.
                if len(connection.owed) >= MAX_OWED or is_throttled(settle):
                    await self._read_owed(connection, time.monotonic() + CONNECT)
        except NotConnected:
            self.unsent.append((resource, settle))
        except FAULTS:
            return

    async def _read_owed(self, connection: Connection, until: float) -> None:
        while connection.owed:
            response = await self._read(connection, until)
            resource, settle = connection.owed.popleft()
            try:
                answers = answers_of(connection.address, response)
            except RampmeterError as error:
                answers = refused(error)
            self._settled(resource, [settle], answers)

    async def _send_unsent(self, until: float | None = None) -> None:
        """Sends the settles that wait, as arrays. What can't be sent waits on."""
        while batch := take_batch(self.unsent):
            resource, settles = batch
            answers: list[Answer] | Failure = NOT_SENT
            try:
                answers = await self._post("settle", resource, settles, until or time.monotonic() + CONNECT)
            except RampmeterError as error:
                answers = refused(error)
            finally:
                is_settled = self._settled(resource, settles, answers)
            if not is_settled:
                return

    def _settled(self, resource: str, settles: Sequence[dict[str, Any]], answers: list[Answer] | Failure) -> bool:
        """Takes note of the answers to settles. Those without an answer wait on."""
        if isinstance(answers, Failure) or any(answer.get("code") == "unavailable" for answer in answers):
            self.unsent.extendleft((resource, settle) for settle in reversed(settles))
            return False
        for answer in answers:
            self._on_settled(resource, answer)
        return True


class PoolOfThreads(Pool):
    """Belongs to one process; all its threads share it."""

    def __init__(self, addresses: Sequence[Address], on_settled: Callable[[str, Answer], None]) -> None:
        super().__init__(addresses, on_settled, connect_socket)

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Sends a settle, and waits for no answer but that to a 429."""
        blocking(self._tell(resource, settle))

    async def _catch_up(self) -> None:
        await self._send_unsent()

    def __del__(self) -> None:
        blocking(self.close())


class PoolOfTasks(Pool):
    """Belongs to one event loop."""

    def __init__(self, addresses: Sequence[Address], on_settled: Callable[[str, Answer], None]) -> None:
        super().__init__(addresses, on_settled, connect_stream)
        self._sending: asyncio.Task[None] | None = None
        self._first: asyncio.Task[None] | None = None
        """The task that sends a 429. Requests wait for it: they could overtake that."""

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Sends a settle on an idle connection, before what is asked there next; otherwise in a task."""
        last = None if is_throttled(settle) or not self._idle else self._idle[-1]
        if last is not None and last.address is self._address and len(last.owed) < MAX_OWED - 1:
            blocking(self._tell(resource, settle))
        else:
            self.unsent.append((resource, settle))
        self._start_sending()
        if is_throttled(settle):
            self._first = self._sending

    async def flush(self, within: float) -> None:
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=within)
        await super().flush(within)

    async def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
        await super().close()

    async def _catch_up(self) -> None:
        self._start_sending()
        if self._first is not None and not self._first.done():
            await asyncio.wait([self._first], timeout=CONNECT)

    def _start_sending(self) -> None:
        if self.unsent and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send_unsent())


def is_throttled(settle: Mapping[str, Any]) -> bool:
    """Whether a call was answered 429."""
    return bool(settle.get("response", {}).get("status") == THROTTLED)


def refused(error: RampmeterError) -> list[Answer]:
    """The answer to settles that no scheduler will take."""
    return [{"status": "refused", "code": "invalid_request", "message": str(error)}]


def packed(messages: Sequence[Mapping[str, Any]]) -> bytes:
    """Messages as JSON, without their spans: one alone, or an array.

    Raises:
        InvalidArgument: If no scheduler would take so much.
    """
    try:
        bare = [{name: each[name] for name in each if name != TRACEPARENT} for each in messages]
        body = ENCODER.encode(bare[0] if len(bare) == 1 else bare)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the request can't be written as JSON: {error}") from None
    if len(body) > MAX_REQUEST:
        raise InvalidArgument(f"a request has at most {MAX_REQUEST} bytes, not {len(body)}")
    return body.encode()


def take_batch(unsent: deque[tuple[str, dict[str, Any]]]) -> tuple[str, list[dict[str, Any]]] | None:
    """The oldest settles that wait, all of one resource and one span; nothing if none waits."""
    taken: list[tuple[str, dict[str, Any]]] = []
    others: list[tuple[str, dict[str, Any]]] = []
    with suppress(IndexError):
        while len(taken) < MAX_BATCH and len(others) < MAX_BATCH:
            item = unsent.popleft()
            is_of_batch = not taken or _key_of(item) == _key_of(taken[0])
            (taken if is_of_batch else others).append(item)
    unsent.extendleft(reversed(others))
    return (taken[0][0], [settle for _, settle in taken]) if taken else None


def _key_of(item: tuple[str, dict[str, Any]]) -> tuple[str, str | None]:
    return item[0], item[1].get(TRACEPARENT)
