"""Fixtures: real servers, one set for each test that asks for them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

import limits
from servers import Nats, Scheduler, Server, Upstream

# The workers of Celery import the one, in an environment of their own; mypy reads the other.
collect_ignore = ["celery_app.py", "typed_program.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the long rows, too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes minutes; runs with --long")
    if config.getoption("--long"):
        limits.slack = 2.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        for item in items:
            if "long" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="a long row: pytest --long runs it"))


class Starts(Protocol):
    """Starts a scheduler of these resources."""

    def __call__(self, resources: str, http: str = "") -> Scheduler: ...


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[Server], Server]]:
    """Has a server stopped at the end of the test."""
    servers: list[Server] = []

    def keep(server: Server) -> Server:
        servers.append(server)
        return server

    yield keep
    for server in reversed(servers):
        server.stop()


@pytest.fixture
def nats(tmp_path: Path, started: Callable[[Server], Server]) -> Nats:
    folder = tmp_path / "nats"
    folder.mkdir()
    server = Nats(folder)
    started(server)
    return server


@pytest.fixture
def scheduler(tmp_path: Path, nats: Nats, started: Callable[[Server], Server]) -> Starts:
    numbers = itertools.count()

    def start(resources: str, http: str = "") -> Scheduler:
        folder = tmp_path / f"scheduler-{next(numbers)}"
        folder.mkdir()
        server = Scheduler(folder, nats, resources, http)
        started(server)
        return server

    return start


@pytest.fixture
def upstream(tmp_path: Path, started: Callable[[Server], Server]) -> Callable[..., Upstream]:
    numbers = itertools.count()

    def start(*limits: str, response_ms: int = 20, more: tuple[str, ...] = ()) -> Upstream:
        folder = tmp_path / f"upstream-{next(numbers)}"
        folder.mkdir()
        server = Upstream(folder, *limits, response_ms=response_ms, more=more)
        started(server)
        return server

    return start


@pytest.fixture
def vendor(tmp_path: Path, started: Callable[[Server], Server]) -> Callable[[Upstream], str]:
    """Starts a vendor's API that passes calls on to an upstream."""

    def start(api: Upstream) -> str:
        server = Server(tmp_path, "vendor", [sys.executable, str(Path(__file__).with_name("vendor.py")), api.url])
        started(server)
        return server.until_said(" vends").split(" vends")[0]

    return start
