"""Configurations of the tests, and what a limit allows."""

from __future__ import annotations

import os

LATENESS = float(os.environ.get("RAMPMETER_LATENESS", "2"))
"""Seconds that a call may need from its start to the upstream, on a machine that others load."""


def limit(name: str, capacity: float, period: str, unit: str = "requests", margin: float = 0, more: str = "") -> str:
    """One limit."""
    return (
        f'[[resource.limit]]\nname = "{name}"\nunit = "{unit}"\ncapacity = {capacity}\n'
        f'period = "{period}"\nmargin = {margin}\n{more}\n'
    )


def resource(*limits: str, name: str = "api", more: str = "") -> str:
    """One resource."""
    return f'[[resource]]\nname = "{name}"\n{more}\n{"".join(limits)}'


PLENTY = resource(limit("plenty", 1_000_000, "1s"), limit("tokens", 1_000_000, "1s", unit="tokens"))
"""No request waits."""


def count(unit: str) -> str:
    """A limit that delays no request: what it lacks of ten thousand was settled."""
    return limit("count", 10_000, "8760h", unit, more="learn = false")


def ideal(total: float, rate: float, burst: float) -> float:
    """Seconds that a full bucket needs for `total`."""
    return max(0.0, total - burst) / rate


def is_in_time(took: float, best: float) -> bool:
    """Whether a row lost at most a twentieth, beside the start of processes and the last answers.

    Where others load the machine, only a standstill tells something: `--long` makes it strict.
    """
    return took <= best * 1.05 + slack


slack = 60.0


def shared(rate: float, burst: float, unit: str = "requests") -> tuple[str, str]:
    """A limit of so many units a second, of which `burst` may go at once, and the upstream's.

    A margin pays for calls that are late.
    """
    margin = rate * LATENESS
    capacity = round(burst + margin)
    period = f"{round(1000 * capacity / rate)}ms"
    return limit(f"many-{unit}", capacity, period, unit, margin), f"{unit}={capacity}/{period}"
