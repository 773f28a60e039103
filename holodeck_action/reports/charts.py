"""A trend as a small picture: SVG made of numbers alone, without any text of a suite, style or script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from holodeck_action.results.trends import Trend

_WIDTH, _HEIGHT, _MARGIN = 256.0, 64.0, 6.0
_LEAST_SPAN = 0.1
"""Smallest difference that fills the height, as in a sparkline."""

_Point = tuple[float, float]
_Known = tuple[int, float, float, float]
"""Position, value, and the ends of its interval: the value itself where there is none."""


def chart(trend: Trend) -> str:
    """Return a trend as an `<svg>` element: a line through the values, and a band of their intervals.

    A run without a value interrupts both.
    """
    known = [
        (index, value, value if low is None else low, value if high is None else high)
        for index, (value, low, high) in enumerate(zip(trend.values, trend.low, trend.high, strict=True))
        if value is not None
    ]
    parts = "".join(_parts(known, len(trend.values)))
    return f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" aria-hidden="true">{parts}</svg>'


def _parts(known: Sequence[_Known], runs: int) -> Iterator[str]:
    if not known:
        return
    bottom, top = min(low for *_, low, _ in known), max(high for *_, high in known)
    span = max(top - bottom, _LEAST_SPAN)
    bottom = (top + bottom - span) / 2

    def at(index: int, value: float) -> _Point:
        x = _MARGIN + (_WIDTH - 2 * _MARGIN) * (index / (runs - 1) if runs > 1 else 0.5)
        return x, _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * (value - bottom) / span

    for _, stretch in groupby(enumerate(known), lambda item: item[1][0] - item[0]):
        points = [point for _, point in stretch]
        upper = [at(index, high) for index, _, _, high in points]
        lower = [at(index, low) for index, _, low, _ in points]
        yield f'<polygon points="{_path([*upper, *reversed(lower)])}" fill="currentColor" fill-opacity="0.2"/>'
        line = _path([at(index, value) for index, value, _, _ in points])
        yield f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="2"/>'
    x, y = at(*known[-1][:2])
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="currentColor"/>'


def _path(points: Sequence[_Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
