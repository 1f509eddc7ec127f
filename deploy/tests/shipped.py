"""What ships in deploy/, read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
CHART = DEPLOY / "helm"


def rules() -> list[dict[str, Any]]:
    """All recording rules and alerts."""
    groups = yaml.safe_load((PROMETHEUS / "rampmeter.rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana/rampmeter.json").read_text())
    return found


def panels() -> list[dict[str, Any]]:
    """The panels that show something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def metrics(expression: str) -> set[str]:
    """The metrics of this program in an expression, without what it records itself."""
    return set(re.findall(r"(?<![:\w])(?:rampmeter|process)_\w+", expression))
