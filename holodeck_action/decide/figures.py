"""Numbers in sentences: rounded to what decides, so that what is violated never looks satisfied."""

from __future__ import annotations

from functools import lru_cache

from holodeck_action.decide.verdict import GateVerdict
from holodeck_action.suite.model.policy import GATES

_MOST_DIGITS = 14


def decisive(actual: float, required: float, *, minimize: bool, holds: bool, places: int = 2) -> tuple[str, str]:
    """Show a number and the bound that it reaches or misses, such as `0.11` and `0.60`.

    The number gets more digits where fewer would tell the opposite: 0.5996 misses 0.60 as `0.5996`.

    Args:
        actual: the number.
        required: the bound.
        minimize: whether the bound is an upper one.
        holds: whether the number is within the bound.
        places: digits behind the point that the number has at least, and the bound up to 2; whole numbers have none.
    """
    bound, limit = _bound(required, min(places, 2))
    shown = ""
    for more in range(places, _MOST_DIGITS):
        shown = _shown(actual, more)
        found = _read(shown)
        if (found <= limit if minimize else found >= limit) == holds:
            break
    return shown, bound


def decisive_percent(actual: float, required: float, *, holds: bool) -> tuple[str, str]:
    """Show two shares 0..1 in percent, such as `77.8 %` and `90 %`."""
    found, bound = decisive(100 * actual, round(100 * required, 10), minimize=False, holds=holds, places=1)
    return f"{found.removesuffix('.0')} %", f"{bound.removesuffix('.0')} %"


def counted(number: int, what: str) -> str:
    """Return a number of things, such as `no case`, `1 case` or `2 cases`; `what` is the singular."""
    return f"no {what}" if number == 0 else f"{number:,} {what}{'' if number == 1 else 's'}"


# A run compares thousands of scores with a handful of thresholds.
@lru_cache(1024)
def _bound(required: float, places: int) -> tuple[str, float]:
    """Return a bound as it is shown, and the number that this says."""
    shown = _shown(required, _needed(required, places))
    return shown, _read(shown)


def _read(shown: str) -> float:
    return float(shown.replace(",", ""))


def _needed(value: float, places: int) -> int:
    """Return how many digits behind the point show a bound as it was written."""
    # 0.225 − 0.0001 is not quite 0.2249.
    near = 1e-12 * max(1.0, abs(value))
    return next((more for more in range(places, _MOST_DIGITS) if abs(round(value, more) - value) < near), _MOST_DIGITS)


def _shown(value: float, places: int) -> str:
    # A mean of 1 − 10⁻¹⁵ is the sum of ones, rounded.
    whole = round(value)
    return f"{whole:,}" if abs(value - whole) < 1e-12 else f"{value:,.{places}f}"


def at_most(name: str) -> bool:
    """Tell whether a gate of this name is an upper limit."""
    if name in GATES:
        return GATES[name].stricter == "lower"
    # The name of a metric may begin with anything.
    key = name.rpartition(".")[2] if name.startswith("metrics.") else name
    return key.startswith(("max_", "baseline."))


def figures(gate: GateVerdict, *, places: int | None = None) -> tuple[str, str]:
    """Show what a gate found (`unknown` for nothing) and what it requires, for a table.

    Both get as many digits as it takes that a violated gate does not look satisfied.

    Args:
        gate: the gate.
        places: digits behind the point of what was found; None for significant ones, as `figure`.
    """
    if gate.actual is None:
        return "unknown", figure(gate.required)
    for more in range(_MOST_DIGITS):
        actual = figure(gate.actual, more) if places is None else f"{gate.actual:.{places + more}f}"
        required = figure(gate.required, more)
        if gate.state != "failed" or _looks_violated(gate.name, actual, required):
            break
    return actual, required


def _looks_violated(name: str, actual: str, required: str) -> bool:
    found, bound = _read(actual), _read(required)
    return found > bound if at_most(name) else found < bound


def figure(value: float, more: int = 0) -> str:
    """Show a number: with four significant digits, from a thousand on as a whole; `more` adds digits."""
    return f"{value:,.{more}f}" if abs(value) >= 1000 else f"{value:.{4 + more}g}"
