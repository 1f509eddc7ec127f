"""The connections of one process's threads."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .._core.answer import Answer
from .._core.ask import Failure, Reply
from ..bounds import MAX_BATCH, MAX_REQUEST, MAX_UNSENT
from ..errors import InvalidArgument, RampmeterError
from .address import Address
from .connection import CONNECT, Connection, NotConnected
from .meaning import answers_of, fault
from .message import NotHttp, Response, get, post

QUIET: Final = 12.0
"""Seconds after which a long poll is doubted: the front is asked whether it is there."""

MAX_IDLE: Final = 64
"""Connections that are kept for later. More threads than that have a connection each time."""

MAX_OWED: Final = 16
"""Settles on one connection whose answers are unread. More would fill its buffers."""

ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
"""Circular bodies are found by their depth: a search for circles takes a fifth of the time."""

FAULTS: Final = (OSError, NotHttp, asyncio.TimeoutError)


class Pool:
    """Asks and settles over HTTP. Belongs to one process; all its threads share it.

    Lists and deques are the only shared state: their operations are atomic, so that no lock can be
    held over a `fork` or by a destructor.
    """

    def __init__(self, address: Address, on_settled: Callable[[str, Answer], None]) -> None:
        self._address = address
        self._on_settled = on_settled
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self.unsent: deque[tuple[str, dict[str, Any]]] = deque(maxlen=MAX_UNSENT)

    def ask(self, resource: str, message: Mapping[str, Any], until: float) -> Reply | Failure:
        """The answer to one request, or why there is none in time.

        Raises:
            RampmeterError: If asking again is useless.
        """
        self._send_unsent()
        path = f"/v1/permit/{resource}"
        asked = time.monotonic()
        answers = self._answers(path, packed([message]), until)
        return answers if isinstance(answers, Failure) else Reply(asked, answers[0])

    def settle(self, resource: str, settles: Sequence[Mapping[str, Any]], until: float) -> list[Answer] | Failure:
        """The answers to settles, or why there are none."""
        return self._answers(f"/v1/settle/{resource}", packed(settles), until)

    def tell(self, resource: str, settle: dict[str, Any]) -> None:
        """Sends a settle, and waits for nothing. It is repeated if its connection ends."""
        path, body = f"/v1/settle/{resource}", packed([settle])
        connection = None
        try:
            connection = self._taken(CONNECT)
            self._make_room(connection)
            connection.owed.append((resource, body))
            connection.send(post(self._address, path, body))
        except FAULTS:
            self.unsent.append((resource, settle))
            if connection is not None:
                if connection.owed and connection.owed[-1] == (resource, body):
                    connection.owed.pop()
                self._lose(connection)
        except BaseException:
            if connection is not None:
                self._lose(connection)
            raise
        else:
            self._keep(connection)

    def flush(self, within: float) -> None:
        """Sends what waits, and reads the answers to settles, for at most `within` seconds."""
        until = time.monotonic() + within
        self._send_unsent(until)
        for connection in list(self._idle):
            try:
                self._idle.remove(connection)
            except ValueError:
                continue
            try:
                self._read_owed(connection, until)
                self._keep(connection)
            except FAULTS:
                self._lose(connection)
        self._send_unsent(until)

    def close(self) -> None:
        """Closes all connections. Those of other threads end with an error."""
        for connection in list(self._open):
            self._drop(connection)
        self._idle.clear()

    def __del__(self) -> None:
        self.close()

    def _answers(self, path: str, body: bytes, until: float) -> list[Answer] | Failure:
        try:
            return answers_of(self._address, self._exchange(path, body, until))
        except FAULTS as error:
            return fault(self._address, error)

    def _exchange(self, path: str, body: bytes, until: float) -> Response:
        """One response. A kept connection that has ended meanwhile is replaced once."""
        while True:
            connection = self._taken(until - time.monotonic())
            try:
                was_kept = not connection.is_fresh
                try:
                    self._make_room(connection)
                    connection.send(post(self._address, path, body))
                    self._read_owed(connection, until)
                    response = self._read(connection, until)
                except (ConnectionError, BrokenPipeError):
                    if not was_kept:
                        raise
                    self._lose(connection)
                    continue
            except BaseException:
                self._lose(connection)
                raise
            self._keep(connection) if response.keeps else self._lose(connection)
            return response

    def _read(self, connection: Connection, until: float) -> Response:
        """Waits as long as it takes, but not for a front that is gone."""
        while True:
            quiet = time.monotonic() + QUIET
            try:
                return connection.read(min(until, quiet))
            except TimeoutError:
                if until <= quiet or not self._is_there():
                    raise

    def _is_there(self) -> bool:
        """Whether anything speaks HTTP at the address."""
        try:
            probe = Connection(self._address)
            try:
                probe.send(get(self._address, "/healthz"))
                probe.read(time.monotonic() + CONNECT)
            finally:
                probe.close()
        except FAULTS:
            return False
        return True

    def _taken(self, within: float) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            connection = self._connected(within)
            self._open.add(connection)
            return connection

    def _connected(self, within: float) -> Connection:
        try:
            return Connection(self._address, within)
        except OSError as error:
            raise NotConnected from error

    def _keep(self, connection: Connection) -> None:
        if len(self._idle) < MAX_IDLE or connection.owed:
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _lose(self, connection: Connection) -> None:
        """The connection has ended; its settles may not have arrived."""
        while connection.owed:
            resource, body = connection.owed.popleft()
            read = json.loads(body)
            self.unsent.extend((resource, settle) for settle in (read if isinstance(read, list) else [read]))
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.close()

    def _make_room(self, connection: Connection) -> None:
        if len(connection.owed) >= MAX_OWED:
            self._read_owed(connection, time.monotonic() + CONNECT)

    def _read_owed(self, connection: Connection, until: float) -> None:
        while connection.owed:
            response = connection.read(until)
            resource, body = connection.owed.popleft()
            self._settled(resource, body, response)

    def _settled(self, resource: str, body: bytes, response: Response) -> None:
        try:
            answers = answers_of(self._address, response)
        except RampmeterError as error:
            answers = [{"status": "refused", "code": "invalid_request", "message": str(error)}]
        for answer in answers if not isinstance(answers, Failure) else [{"code": "unavailable"}]:
            if answer.get("code") == "unavailable":
                read = json.loads(body)
                self.unsent.extend((resource, settle) for settle in (read if isinstance(read, list) else [read]))
                return
            self._on_settled(resource, answer)

    def _send_unsent(self, until: float | None = None) -> None:
        """Sends the settles that wait, as arrays. What can't be sent waits on."""
        for _ in range(len(self.unsent)):
            batch = take_batch(self.unsent)
            if not batch:
                return
            resource, settles = batch
            try:
                answers = self.settle(resource, settles, until or time.monotonic() + CONNECT)
            except RampmeterError as error:
                answers = [{"status": "refused", "code": "invalid_request", "message": str(error)}]
            except BaseException:
                self.unsent.extendleft((resource, settle) for settle in reversed(settles))
                raise
            if isinstance(answers, Failure) or any(answer.get("code") == "unavailable" for answer in answers):
                self.unsent.extendleft((resource, settle) for settle in reversed(settles))
                return
            for answer in answers:
                self._on_settled(resource, answer)


def packed(messages: Sequence[Mapping[str, Any]]) -> bytes:
    """Messages as JSON: one alone, or an array.

    Raises:
        InvalidArgument: If no scheduler would take so much.
    """
    try:
        body = ENCODER.encode(messages[0] if len(messages) == 1 else messages)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the request can't be written as JSON: {error}") from None
    if len(body) > MAX_REQUEST:
        raise InvalidArgument(f"a request has at most {MAX_REQUEST} bytes, not {len(body)}")
    return body.encode()


def take_batch(
    unsent: deque[tuple[str, dict[str, Any]]],
) -> tuple[str, list[dict[str, Any]]] | None:
    """The oldest settles that wait, all of one resource; nothing if none waits."""
    taken: list[tuple[str, dict[str, Any]]] = []
    while len(taken) < MAX_BATCH:
        try:
            item = unsent.popleft()
        except IndexError:
            break
        if taken and item[0] != taken[0][0]:
            unsent.appendleft(item)
            break
        taken.append(item)
    return (taken[0][0], [settle for _, settle in taken]) if taken else None
