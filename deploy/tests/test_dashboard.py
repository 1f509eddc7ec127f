"""The dashboard, by Grafana's own types."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from shipped import dashboard, panels

# Those that Grafana still develops; `graph`, `singlestat` and `table-old` are gone.
CURRENT = {"bargauge", "row", "stat", "table", "timeseries"}


def lost(written: Any, read: Any, path: str = "") -> list[str]:
    """What of `written` the types do not have, or have otherwise. Defaults may come on top."""
    if isinstance(written, dict) and isinstance(read, dict):
        return [why for key in written for why in lost(written[key], read.get(key), f"{path}.{key}")]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [why for at, pair in enumerate(zip(written, read, strict=True)) for why in lost(*pair, f"{path}[{at}]")]
    return [] if written == read else [f"{path}: {written} is {read}"]


def test_grafana_knows_every_field() -> None:
    register_default_plugins()
    read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(dashboard())))
    assert lost(dashboard(), read) == []
    wrong = {**dashboard(), "panles": []}
    assert lost(wrong, json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(wrong)))) != []


def test_panels_are_of_current_types() -> None:
    assert {panel["type"] for panel in dashboard()["panels"]} <= CURRENT


def test_every_panel_says_what_it_shows() -> None:
    for panel in panels():
        assert panel["title"] and panel["description"].endswith("."), panel["title"]
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"]), panel["title"]
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(ids) == len(set(ids))


def test_no_panel_lies_upon_another() -> None:
    def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
        def apart(at: str, size: str) -> bool:
            return one[at] + one[size] <= other[at] or other[at] + other[size] <= one[at]

        return not (apart("x", "w") or apart("y", "h"))

    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert not [pair for pair in combinations(places, 2) if overlap(*pair)]
