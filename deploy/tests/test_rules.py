"""Rules and alerts, by promtool."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from shipped import PROMETHEUS, ROOT, alerts, rules


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_the_configuration_are_valid() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", "rampmeter.rules.yml")
    promtool("check", "config", "prometheus.yml")


def test_alerts_fire_and_clear() -> None:
    promtool("test", "rules", "rampmeter.test.yml")


@pytest.mark.parametrize("alert", [alert["alert"] for alert in alerts()])
def test_every_alert_is_seen_to_fire_and_then_to_clear(alert: str) -> None:
    groups = yaml.safe_load((PROMETHEUS / "rampmeter.test.yml").read_text())["tests"]
    looks = [look for group in groups for look in group.get("alert_rule_test", []) if look["alertname"] == alert]
    assert [bool(look.get("exp_alerts")) for look in looks] == [True, False], alert


def test_every_alert_has_its_paragraph() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("**`Rampmeter")]
    assert listed == [alert["alert"] for alert in alerts()]


def test_names_of_rules_follow_prometheus() -> None:
    for rule in rules():
        name = rule.get("record") or rule["alert"]
        # level:metric:operations, and CamelCase.
        assert name.count(":") == (2 if "record" in rule else 0), name
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("warning", "critical"), name
            assert rule["annotations"]["summary"], name
