"""A real Prometheus scrapes real schedulers under load: whatever the dashboard asks has an answer."""

from __future__ import annotations

import json
import math
import re
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from servers import LONGEST, Nats, Scheduler, Server, Upstream, binary, until

from shipped import PROMETHEUS, metrics, panels, rules

RESOURCES = """
[[resource]]
name = "hub"
classes = [{ name = "urgent" }, { name = "bulk" }]

[[resource.limit]]
name = "few"
capacity = 20
period = "1s"

[[resource.limit]]
name = "in-shadow"
shadow = true
capacity = 5
period = "1s"
"""
WORKERS = 6
# A healthy system without a provider has none of these.
ABSENT_WHEN_WELL = {"rampmeter_configuration_differs", "rampmeter_provider_up"}


class Prometheus(Server):
    """A Prometheus with the shipped rules, which scrapes these addresses every second."""

    def __init__(self, folder: Path, targets: dict[str, list[str]]) -> None:
        shipped = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        assert [job["job_name"] for job in shipped["scrape_configs"]] == list(targets)
        shipped["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        shipped["rule_files"] = [str(PROMETHEUS / "rampmeter.rules.yml")]
        for job in shipped["scrape_configs"]:
            job["static_configs"] = [{"targets": targets[job["job_name"]]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(shipped))
        store = f"--storage.tsdb.path={folder}/data"
        super().__init__(
            folder,
            "prometheus",
            ["prometheus", f"--config.file={folder}/prometheus.yml", store, "--web.listen-address=127.0.0.1:0"],
        )
        self.url = "http://" + self.until_said("Listening on").split("address=")[1].split()[0]
        self.until_said("Server is ready")

    def get(self, path: str, **query: str) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=LONGEST) as answer:
            return json.loads(answer.read())["data"]

    def values(self, expression: str) -> list[float]:
        return [float(found["value"][1]) for found in self.get("query", query=expression)["result"]]


def post(url: str, message: Any) -> Any:
    return json.loads(fetch(url, json.dumps(message).encode(), {"Content-Type": "application/json"}))


def fetch(url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    """The body of an answer; a refusal is one, too."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers or {}), timeout=LONGEST) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.read()


def work(scheduler: str, proxy: str, ended: threading.Event, number: int) -> None:
    """One worker: calls, some of which are rejected, refused, or go through the proxy."""
    call = 0
    while not ended.is_set():
        call += 1
        urgency = ("urgent", "bulk")[number % 2]
        permit = post(f"{scheduler}/v1/permit/hub", {"mode": "wait", "class": urgency})
        if permit["status"] == "granted":
            ended.wait(permit["delay_ms"] / 1000 + 0.05)
            status = 429 if call % 16 == 0 else 200
            post(f"{scheduler}/v1/settle/hub", {"id": permit["id"], "response": {"status": status}})
        if call % 8 == 0:
            post(f"{scheduler}/v1/permit/hub", {"class": "none"})
            fetch(f"{proxy}/process")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    servers: list[Server] = []

    def folder(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    def keep(server: Any) -> Any:
        servers.append(server)
        return server

    ended = threading.Event()
    workers: list[threading.Thread] = []
    try:
        nats = keep(Nats(folder("nats")))
        schedulers = [keep(Scheduler(folder(name), nats, RESOURCES)) for name in ("a", "b")]
        upstream = keep(Upstream(folder("upstream"), "requests=1000/PT1S"))
        proxy_file = folder("proxy") / "proxy.toml"
        proxy_file.write_text(
            f'[nats]\nurl = "{nats.url}"\n[[proxy]]\nlisten = "127.0.0.1:0"\nupstream = "{upstream.url}"\n'
            'resource = "hub"\nclass = "urgent"\nmetrics = "127.0.0.1:0"\n'
        )
        proxy = keep(Server(proxy_file.parent, "proxy", [binary(), "proxy", str(proxy_file)]))
        forwarding = "http://" + address(proxy.until_said("holds requests at"))
        given = ["--nats", nats.url]
        subprocess.run([binary(), "jobs", "init", "roles", *given], check=True, capture_output=True)
        gauges = [binary(), "jobs", "metrics", "roles", "--listen", "127.0.0.1:0", *given]
        jobs = keep(Server(folder("jobs"), "jobs", gauges))
        targets = {
            "rampmeter": [scheduler.url.removeprefix("http://") for scheduler in schedulers],
            "rampmeter-proxy": [address(proxy.until_said("metrics of the proxy at"))],
            "rampmeter-jobs": [address(jobs.until_said("gauges of jobs at"))],
        }
        server = keep(Prometheus(folder("prometheus"), targets))
        for number in range(WORKERS):
            arguments = (schedulers[number % 2].url, forwarding, ended, number)
            workers.append(threading.Thread(target=work, args=arguments))
            workers[-1].start()
        yield server
    finally:
        ended.set()
        for worker in workers:
            worker.join(LONGEST)
        for server in reversed(servers):
            server.stop()


def address(line: str) -> str:
    """The address in a line of a log."""
    found = re.search(r"http://([0-9.]+:[0-9]+)", line)
    assert found, line
    return found.group(1)


def answers(prometheus: Prometheus, expression: str) -> list[float]:
    """The numbers that the expression has at last."""

    def look() -> list[float] | None:
        return [value for value in prometheus.values(expression) if not math.isnan(value)] or None

    return until(f"an answer to {expression}", look)


def shown(expression: str) -> str:
    """A query of the dashboard as Grafana asks it for all resources."""
    return expression.replace("$__rate_interval", "15s").replace("$resource", ".*")


def test_all_that_is_scraped_is_up(prometheus: Prometheus) -> None:
    def look() -> bool | None:
        return prometheus.values("up") == [1.0] * 4 or None

    until("four targets are up", look)


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_every_query_of_a_panel_has_an_answer(prometheus: Prometheus, panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert answers(prometheus, shown(target["expr"]))


@pytest.mark.parametrize("rule", [rule for rule in rules() if "record" in rule], ids=lambda rule: rule["record"])
def test_every_rule_records_something(prometheus: Prometheus, rule: dict[str, Any]) -> None:
    assert answers(prometheus, rule["record"])


def test_rules_are_evaluated_without_errors(prometheus: Prometheus) -> None:
    def look() -> bool | None:
        found = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        is_well = all(rule["health"] == "ok" for rule in found)
        return (is_well and len(found) == len(rules())) or None

    until("all rules are evaluated", look)


def test_whatever_is_asked_for_is_there(prometheus: Prometheus) -> None:
    asked = {target["expr"] for panel in panels() for target in panel["targets"]} | {rule["expr"] for rule in rules()}
    for metric in sorted(set().union(*map(metrics, asked)) - ABSENT_WHEN_WELL):
        assert answers(prometheus, f"count({metric})"), metric


def test_labels_have_a_bounded_number_of_values(prometheus: Prometheus) -> None:
    series = answers(prometheus, 'count({__name__=~"rampmeter_.+",job="rampmeter"}) / count(up{job="rampmeter"})')
    # A resource of three limits and two classes; histograms take most of it.
    assert series[0] < 400
