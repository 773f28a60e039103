"""Numbers in sentences, with enough digits that a violated bound never looks satisfied."""

from __future__ import annotations

from functools import lru_cache

from holodeck_action.decide.verdict import GateVerdict
from holodeck_action.suite.model.policy import GATES

_MAX_DECIMALS = 14


def decisive_numbers(
    actual: float, required_value: float, *, minimize: bool, is_met: bool, decimals: int = 2
) -> tuple[str, str]:
    """Format a number and its bound, such as `0.11` and `0.60`.

    The number gets more digits if rounding would suggest the opposite verdict: 0.5996 misses 0.60, so it is not `0.60`.

    Args:
        actual: the number.
        required_value: the bound.
        minimize: whether the bound is an upper bound.
        is_met: whether the number satisfies the bound.
        decimals: minimum number of decimals (at most 2 for the bound); whole numbers have no decimals.
    """
    bound, limit = _format_bound(required_value, min(decimals, 2))
    shown = ""
    for more in range(decimals, _MAX_DECIMALS):
        shown = _format_number(actual, more)
        found = _parse_number(shown)
        if (found <= limit if minimize else found >= limit) == is_met:
            break
    return shown, bound


def decisive_percentages(actual: float, required_value: float, *, is_met: bool) -> tuple[str, str]:
    """Format a rate and its lower bound, both 0..1, as percentages, such as `77.8 %` and `90 %`."""
    found, bound = decisive_numbers(
        100 * actual, round(100 * required_value, 10), minimize=False, is_met=is_met, decimals=1
    )
    return f"{found.removesuffix('.0')} %", f"{bound.removesuffix('.0')} %"


def count_phrase(number: int, noun: str) -> str:
    """Return a count with its noun, such as `no case`, `1 case` or `2 cases`; `noun` is the singular."""
    return f"no {noun}" if number == 0 else f"{number:,} {noun}{'' if number == 1 else 's'}"


# A run compares thousands of scores with a handful of thresholds.
@lru_cache(1024)
def _format_bound(bound: float, decimals: int) -> tuple[str, float]:
    """Return a bound as a string, and the number that the string shows."""
    shown = _format_number(bound, _digits_needed(bound, decimals))
    return shown, _parse_number(shown)


def _parse_number(text: str) -> float:
    return float(text.replace(",", ""))


def _digits_needed(value: float, decimals: int) -> int:
    """Return the number of decimals with which a bound was written, at least `decimals`."""
    # 0.225 − 0.0001 is not quite 0.2249.
    near = 1e-12 * max(1.0, abs(value))
    return next(
        (more for more in range(decimals, _MAX_DECIMALS) if abs(round(value, more) - value) < near), _MAX_DECIMALS
    )


def _format_number(value: float, decimals: int) -> str:
    # A mean of 1 − 10⁻¹⁵ is the sum of ones, rounded.
    whole = round(value)
    return f"{whole:,}" if abs(value - whole) < 1e-12 else f"{value:,.{decimals}f}"


def is_upper_limit(name: str) -> bool:
    """Return whether the gate of this name is an upper limit."""
    if name in GATES:
        return GATES[name].stricter == "lower"
    # The name of a metric may begin with anything.
    key = name.rpartition(".")[2] if name.startswith("metrics.") else name
    return key.startswith(("max_", "baseline."))


def gate_numbers(gate: GateVerdict, *, decimals: int | None = None) -> tuple[str, str]:
    """Format the measured and the required number of a gate for a table; an unknown measured number is `unknown`.

    Both get enough digits that a violated gate does not look satisfied.

    Args:
        gate: the gate.
        decimals: decimals of the measured number; None to use significant digits like `format_number`.
    """
    if gate.actual is None:
        return "unknown", format_number(gate.required)
    for more in range(_MAX_DECIMALS):
        actual = format_number(gate.actual, more) if decimals is None else f"{gate.actual:.{decimals + more}f}"
        required = format_number(gate.required, more)
        if gate.state != "failed" or _looks_violated(gate.name, actual, required):
            break
    return actual, required


def _looks_violated(name: str, actual: str, required_value: str) -> bool:
    found, bound = _parse_number(actual), _parse_number(required_value)
    return found > bound if is_upper_limit(name) else found < bound


def format_number(value: float, extra_digits: int = 0) -> str:
    """Format a number with 4 + `extra_digits` significant digits; from 1,000 on, with `extra_digits` decimals."""
    return f"{value:,.{extra_digits}f}" if abs(value) >= 1000 else f"{value:.{4 + extra_digits}g}"
