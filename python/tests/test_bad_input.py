"""Each mistake is an exception that says what to do, and nothing is charged for it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rampmeter
from conftest import Starts
from limits import PLENTY, limit, resource
from rampmeter import InvalidArgument, NotRampmeter, Refused, TlsError, Unauthorized
from servers import Nats, Upstream

IN_A_CIRCLE: dict[str, object] = {}
IN_A_CIRCLE["again"] = [IN_A_CIRCLE]


def both(hub: rampmeter.Resource, **options: object) -> None:
    """Asks in a thread and in a task; both have to fail alike."""
    with pytest.raises(rampmeter.RampmeterError) as in_task:
        asyncio.run(hub.permit(**options).aacquire())  # type: ignore[arg-type]
    with pytest.raises(type(in_task.value)) as in_thread:
        hub.permit(**options).acquire()  # type: ignore[arg-type]
    assert str(in_thread.value)[:60] == str(in_task.value)[:60]
    raise in_thread.value


def test_refusals_of_a_scheduler(scheduler: Starts) -> None:
    running = scheduler(resource(limit("few", 5, "1h")))
    client = rampmeter.connect(running.url)
    with pytest.raises(Refused, match=r"unknown_resource: .*none of that name"):
        both(client.resource("apo"))
    with pytest.raises(Refused, match=r"unknown_unit: .*tokens"):
        both(client.resource("api"), cost={"tokens": 3})
    with pytest.raises(Refused, match=r"never_fits: .*few") as refused:
        both(client.resource("api"), cost=6)
    assert refused.value.retry_after is None and refused.value.code == "never_fits"
    with pytest.raises(Refused, match="unknown_class"):
        both(client.resource("api"), class_="hurried")
    with client.resource("api").permit(5):
        pass


@pytest.mark.parametrize(
    "options",
    [
        {"cost": -1},
        {"cost": float("nan")},
        {"cost": {"two words": 1}},
        {"cost": {f"unit-{number}": 1 for number in range(17)}},
        {"cost": {"requests": "many"}},
        {"cost": 1e12},
        {"labels": {"route": "x" * 10_000_000}},
        {"labels": {"route": 5}},
        {"labels": {f"label-{number}": "" for number in range(17)}},
        {"not_accounts": "team-a"},
        {"not_accounts": ["team a"]},
        {"worth": "5"},
        {"worth": float("inf")},
        {"or_": "small"},
        {"or_": {"labels": {"model": "small"}}},
        {"or_": ["small"]},
        {"or_": [{}] * 5},
        {"or_": [{"label": {"model": "small"}}]},
        {"or_": [{"labels": {"model": 5}}]},
        {"or_": [{"cost": -1}]},
        {"or_": [{"worth": -1}]},
        {"class_": "a b"},
        {"max_wait": -1},
        {"max_wait": float("nan")},
        {"max_wait": "3"},
        {"age": "3"},
        {"age": float("inf")},
        {"price": {"kind": "sentinel-hub", "body": "x" * 10_000_000}},
        {"price": {"kind": {1, 2}}},
        {"price": {"kind": "sentinel-hub", "body": IN_A_CIRCLE}},
    ],
)
def test_arguments_that_no_scheduler_would_take(options: dict[str, object], scheduler: Starts) -> None:
    hub = rampmeter.connect("http://127.0.0.1:1").resource("api")
    with pytest.raises(InvalidArgument):
        hub.permit(**options).acquire()  # type: ignore[arg-type]


def test_a_wait_that_is_none_is_refused_wherever_it_is_given() -> None:
    client = rampmeter.connect("http://127.0.0.1:1")
    for ask in (
        lambda: client.resource("api", max_wait="3"),  # type: ignore[arg-type]
        lambda: client.resource("api").run(1, lambda: 200, max_wait="3"),
        lambda: client.resource("api").reserve(1, max_wait="3"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidArgument, match="max_wait is a number of seconds from 0 on, not '3'"):
            ask()


def test_what_tells_no_outcome_settles_nothing(scheduler: Starts) -> None:
    hub = rampmeter.connect(scheduler(PLENTY).url).resource("api")
    for told in (object(), {"status": 200}, "200", 42, ("a", "b"), True):
        with hub.permit() as permit:
            with pytest.raises(InvalidArgument, match=f"a rampmeter.Outcome, or nothing, not {type(told).__name__}"):
                permit.settle(told)
            assert not permit.is_settled
    assert hub.run(1, lambda: "a body") == "a body"
    hub.client.flush()
    assert hub.client.stats().settled >= 7


def test_names_and_addresses() -> None:
    for url in ["127.0.0.1:9480", "ftp://host", "http://", "http://host:99999", "http://host:0", ""]:
        with pytest.raises(InvalidArgument, match="http://HOST:PORT"):
            rampmeter.connect(url)
    with pytest.raises(InvalidArgument, match="token="):
        rampmeter.connect("http://me:secret@host")
    with pytest.raises(InvalidArgument, match="no header") as refused:
        rampmeter.connect("http://host", token="secret\r\nX: y")  # noqa: S106
    assert "secret" not in str(refused.value)
    with pytest.raises(InvalidArgument, match="resource 'a b' is no name"):
        rampmeter.connect("http://host").resource("a b")


def test_a_wrong_token(scheduler: Starts, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("the right token, long enough\n")
    running = scheduler(PLENTY, http=f'token_file = "{tmp_path}/token"')
    for token in (None, "the wrong token, long enough"):
        with pytest.raises(Unauthorized, match="token=") as refused:
            both(rampmeter.connect(running.url, token=token).resource("api"))
        assert "long enough" not in str(refused.value)
    client = rampmeter.connect(running.url, token="the right token, long enough")  # noqa: S106
    with client.resource("api").permit() as permit:
        permit.settle(200)


def test_a_request_that_the_front_finds_too_large(scheduler: Starts) -> None:
    hub = rampmeter.connect(scheduler(PLENTY).url).resource("api")
    with pytest.raises(rampmeter.RampmeterError):
        both(hub, price={"kind": "sentinel-hub", "api": "process", "body": "x" * 500_000})
    with hub.permit(max_wait=5):
        pass


def test_something_else_answers(nats: Nats, upstream: Callable[..., Upstream]) -> None:
    with pytest.raises(NotRampmeter, match="is no Rampmeter: it answers 404"):
        both(rampmeter.connect(upstream("requests=5/1s").url).resource("api"))
    with pytest.raises(NotRampmeter, match="write nats://"):
        both(rampmeter.connect(nats.url.replace("nats://", "http://")).resource("api"))
    with pytest.raises(NotRampmeter, match=r"no host has the name 'no-such-host.invalid'"):
        both(rampmeter.connect("http://no-such-host.invalid:9480").resource("api"))


@contextlib.contextmanager
def tls_server(folder: Path) -> Iterator[int]:
    """A server with a self-signed certificate."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener = socket.create_server(("127.0.0.1", 0))
    answer = b'{"status":"granted","id":"x","delay_ms":0,"epoch":1}'

    def serve() -> None:
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), context.wrap_socket(raw, server_side=True) as connection:
                while connection.recv(65_536):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def test_tls_that_cannot_be_trusted(tmp_path: Path, scheduler: Starts) -> None:
    with tls_server(tmp_path) as port:
        with pytest.raises(TlsError, match="ca_file="):
            both(rampmeter.connect(f"https://127.0.0.1:{port}").resource("api"))
        trusted = rampmeter.connect(f"https://127.0.0.1:{port}", ca_file=str(tmp_path / "cert.pem")).resource("api")
        with trusted.permit(max_wait=5) as permit:
            assert permit.is_local is False
        trusted.client.close()
    with pytest.raises(TlsError, match="speaks no TLS"):
        both(rampmeter.connect(scheduler(PLENTY).url.replace("http", "https")).resource("api"))
    with pytest.raises(TlsError, match="can't be read"):
        rampmeter.connect("https://127.0.0.1", ca_file="/none.pem")
