"""Configurations of the tests, and what a limit allows."""

from __future__ import annotations


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


def ideal(total: float, capacity: float, period: float) -> float:
    """Seconds that a full bucket needs for `total`."""
    return max(0.0, total - capacity) * period / capacity
