"""Real servers of the tests: NATS, and `serve`, `proxy` and `upstream` of Rampmeter, on free ports."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 30.0
"""Seconds that a server may take on a loaded machine."""

T = TypeVar("T")


def binary() -> str:
    """The path of `rampmeter`."""
    given = os.environ.get("RAMPMETER_BINARY")
    places = [Path(given)] if given else [ROOT / "target" / kind / "rampmeter" for kind in ("release", "debug")]
    for place in places:
        if place.is_file():
            return str(place)
    raise FileNotFoundError(
        f"there is no rampmeter at {', '.join(map(str, places))}: "
        "run `cargo build --release`, or set RAMPMETER_BINARY to the binary"
    )


def nats_server() -> str:
    """The path of the nats-server that the requirements bring."""
    found = os.environ.get("RAMPMETER_NATS_SERVER") or shutil.which(
        "nats-server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    if not found:
        raise FileNotFoundError("there is no nats-server: run python/check, or set RAMPMETER_NATS_SERVER")
    return found


def until(what: str, look: Callable[[], T | None], within: float = LONGEST) -> T:
    """What `look` finds at last."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        if (found := look()) is not None:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what} did not happen within {within} s")


class Server:
    """A process with a log."""

    def __init__(self, folder: Path, name: str, command: list[str]) -> None:
        self.folder = folder
        self.log = folder / f"{name}.log"
        self._command = command
        self.start()

    def start(self) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RAMPMETER_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )

    def said(self, what: str) -> list[str]:
        """The lines of the log that have this text."""
        return [line for line in self.log.read_text("utf-8", "replace").splitlines() if what in line]

    def until_said(self, what: str, times: int = 1) -> str:
        def look() -> str | None:
            if self.process.poll() is not None:
                raise AssertionError(f"{self._command[0]} has ended: {self.log.read_text()[-2000:]}")
            lines = self.said(what)
            return lines[-1] if len(lines) >= times else None

        return until(f"{what!r} in {self.log.name}", look)

    def kill(self) -> None:
        """Kills it as a power cut does."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            # Until its last thread has stopped, it may still answer.
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)


class Nats(Server):
    """A nats-server with JetStream on the loopback."""

    def __init__(self, folder: Path, configuration: str = "") -> None:
        ports = folder / "ports"
        ports.mkdir()
        file = folder / "nats.conf"
        file.write_text(configuration)
        command = [nats_server(), "-c", str(file), "-a", "127.0.0.1", "-js", "-sd", str(folder / "store")]
        super().__init__(folder, "nats", [*command, "-p", "-1", "--ports_file_dir", str(ports)])

        def port() -> str | None:
            files = list(ports.glob("*.ports"))
            try:
                return str(json.loads(files[0].read_text())["nats"][0]) if files else None
            except (ValueError, OSError):
                return None

        self.url = until("a port of NATS", port)
        # It comes back where its clients look for it.
        self._command = [*command, "-p", self.url.rsplit(":", 1)[1]]


class Scheduler(Server):
    """`rampmeter serve` with these resources."""

    def __init__(self, folder: Path, nats: Nats, resources: str, http: str = "", user: str = "") -> None:
        self._configuration = folder / "rampmeter.toml"
        self._nats = nats.url.replace("nats://", f"nats://{user}")
        self._write("127.0.0.1:0", http, resources)
        command = [binary(), "--log-format", "json", "serve", "--config", str(self._configuration)]
        super().__init__(folder, "scheduler", command)
        self.until_said('"ready: ')
        self.url = self.until_said("health and metrics at").split("health and metrics at ")[1].split("/metrics")[0]
        # A restarted scheduler listens where its clients look for it.
        self._write(self.url.removeprefix("http://"), http, resources)

    def restart(self) -> None:
        """Starts it again, and waits until it leads."""
        self.start()
        self.until_said('"ready: ', len(self.said('"ready: ')) + 1)

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))

    def permits(self) -> float:
        """Permits that were used. One whose start was missed is given back, and another one is asked for."""
        return self.metric("rampmeter_granted_total") - self.metric("rampmeter_returned_total")

    def levels(self) -> dict[str, float]:
        """What the limits of all resources have left."""
        shown = subprocess.run(
            [binary(), "status", "--json", "--nats", self._nats], check=True, capture_output=True, timeout=LONGEST
        )
        return {limit["name"]: limit["level"] for status in json.loads(shown.stdout) for limit in status["limits"]}

    def _write(self, listen: str, http: str, resources: str) -> None:
        text = f'[nats]\nurl = "{self._nats}"\n[http]\nlisten = "{listen}"\n{http}\n{resources}'
        self._configuration.write_text(text)


class Proxy(Server):
    """`rampmeter proxy` with this configuration, in front of an API."""

    def __init__(self, folder: Path, nats: Nats, configuration: str) -> None:
        file = folder / "rampmeter.toml"
        file.write_text(configuration)
        command = [binary(), "--log-format", "json", "proxy", str(file), "--nats", nats.url, "--listen", "127.0.0.1:0"]
        super().__init__(folder, "proxy", command)
        self.url = self.until_said("holds requests at ").split("holds requests at ")[1].split('"')[0]


class Upstream(Server):
    """`rampmeter upstream`, which counts and enforces."""

    def __init__(self, folder: Path, *limits: str, response_ms: int = 20, more: tuple[str, ...] = ()) -> None:
        given = [argument for limit in limits for argument in ("--limit", limit)]
        command = [binary(), "upstream", "--listen", "127.0.0.1:0", "--response-ms", str(response_ms)]
        super().__init__(folder, "upstream", [*command, *given, *more])
        self.url = self.until_said(" enforces ").split(" enforces ")[0].strip()

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/stats", timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def spent(self, unit: str) -> float:
        """What the account has been charged."""
        return sum(policy["spent"] for policy in self.stats()["policies"] if policy["unit"] == unit)
