"""Analyses the runs of a suite over time: trends, flaky cases, drift and advice on quarantine.

All functions are pure and take the lines of one suite, oldest first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holodeck_action.extensions.history.history_lines import MOST_IDS, HistoryLine, HistoryPoint
from holodeck_action.record.evaluation import Polarity
from holodeck_action.reports.history import FlakyCase, History, Trend, TrendRun

SHOWN_RUNS = 20
"""Number of runs in a trend."""
RECENT_RUNS = 10
"""Number of recent runs in which flaky cases are counted; a quarantined case that passes all of them is released."""
OFTEN_FLAKY = 3
"""Number of recent runs in which a case must be flaky before quarantine is advised."""
_ROUNDING = 1e-9
_BARS = "▁▂▃▄▅▆▇█"
_NO_BAR = "·"
_SMALLEST_SPAN = 0.1
"""Smallest difference of values that fills a sparkline's height; equals the default margin of a comparison."""


def history_of(lines: Iterable[HistoryLine], rerun: HistoryLine | None = None) -> History | None:
    """Return the trends, flaky cases, drift and advice of a suite.

    Args:
        lines: lines of one suite, oldest first.
        rerun: a new run of an earlier commit, used only to detect drift; None if there is no such run.

    Returns:
        None if no run is both complete and unfiltered.
    """
    counting = [line for line in lines if line.is_counted]
    if not counting:
        return None
    shown, recent = counting[-SHOWN_RUNS:], counting[-RECENT_RUNS:]
    names = sorted({name for line in shown for name in line.metrics})
    flaky = flaky_cases(recent)
    return History(
        runs=tuple(TrendRun(line.time, line.commit, line.cost_usd, line.p95_latency_ms) for line in shown),
        pass_rate=_trend("", "maximize", [line.pass_rate for line in shown]),
        metrics=tuple(_metric_trend(name, shown) for name in names),
        flaky=flaky,
        drift=tuple(drifts([*shown, rerun] if rerun is not None and rerun.is_counted else shown)),
        advice=tuple(_advice(recent, flaky)),
    )


def _metric_trend(name: str, lines: Sequence[HistoryLine]) -> Trend:
    points = [line.metrics.get(name) for line in lines]
    latest = next(point for point in reversed(points) if point is not None)
    return _trend(name, latest.polarity, [None if point is None else point.mean for point in points])


def _trend(name: str, polarity: Polarity, points: Sequence[HistoryPoint | None]) -> Trend:
    def values_of(get_value: Callable[[HistoryPoint], float | None]) -> tuple[float | None, ...]:
        return tuple(None if point is None else get_value(point) for point in points)

    values = values_of(lambda point: point.value)
    low, high = values_of(lambda point: point.low), values_of(lambda point: point.high)
    latest = next((value for value in reversed(values) if value is not None), None)
    return Trend(name, polarity, values, low, high, sparkline(values), latest)


def sparkline(values: Sequence[float | None]) -> str:
    """Return one bar character per value, and `·` for each None. If the values span 0.1 or more, the lowest is ▁ and
    the highest █.

    A smaller span uses only the middle of the height, so that noise does not look like a drop.
    """
    known = [value for value in values if value is not None]
    if not known:
        return _NO_BAR * len(values)
    # Quarter all values, so that no difference overflows.
    top, low = max(known) / 4, min(known) / 4
    span = max(top - low, _SMALLEST_SPAN / 4)
    bottom = (top + low - span) / 2
    return "".join(
        _NO_BAR
        if value is None
        else _BARS[min(len(_BARS) - 1, int((value / 4 - bottom) / span * len(_BARS) + _ROUNDING))]
        for value in values
    )


def flaky_cases(lines: Sequence[HistoryLine]) -> tuple[FlakyCase, ...]:
    """Return the flaky cases of these runs with their counts, most often flaky first.

    A case is flaky in a run if its trials disagree, or if another run of the same code has another outcome.
    """
    groups = _group_by_code(lines)
    flaky = Counter(case for line in lines for case in {*line.flaky, *_flipped_cases(line, groups)})
    failed = Counter(case for line in lines for case in line.failing)
    ordered = sorted(flaky, key=lambda case: (-flaky[case], case))
    return tuple(FlakyCase(case, flaky[case], failed[case], len(lines)) for case in ordered)


_Code = tuple[str | None, str, str, str]


def _code_key(line: HistoryLine) -> _Code:
    return line.commit, line.suite_digest, line.measure, line.target


def _group_by_code(lines: Iterable[HistoryLine]) -> Mapping[_Code, Sequence[HistoryLine]]:
    """Return the runs of known commits, grouped by commit, suite, measure and target."""
    groups: dict[_Code, list[HistoryLine]] = defaultdict(list)
    for line in lines:
        if line.commit is not None:
            groups[_code_key(line)].append(line)
    return groups


def _flipped_cases(line: HistoryLine, groups: Mapping[_Code, Sequence[HistoryLine]]) -> set[str]:
    """Return the cases whose outcome differs between this run and another run of the same code.

    Runs whose list of failed cases has its maximum length, and so may be incomplete, are ignored.
    """
    others = [other for other in (line, *groups.get(_code_key(line), ())) if len(other.failing) < MOST_IDS]
    if line not in others:
        return set()
    return {case for other in others for case in {*line.failing} ^ {*other.failing}}


def drifts(lines: Sequence[HistoryLine]) -> Iterator[str]:
    """Yield a sentence for each number that differs significantly between the two latest runs of the same code.

    Runs of the same code have the same commit, suite and target, and the same cases, metrics and judges. A number has
    drifted if the 95 % intervals of the two runs do not overlap. Runs with fewer than 10 cases have no intervals.
    """
    for same in _group_by_code(lines).values():
        if len(same) > 1:
            before, after = same[-2:]
            if _is_disjoint(before.pass_rate, after.pass_rate):
                yield _drift_text("the pass rate", before.pass_rate, after.pass_rate, before, after)
            for name in sorted(before.metrics.keys() & after.metrics.keys()):
                one, other = before.metrics[name], after.metrics[name]
                if _is_disjoint(one.mean, other.mean):
                    yield _drift_text(name, one.mean, other.mean, before, after)


def _is_disjoint(first: HistoryPoint | None, second: HistoryPoint | None) -> bool:
    if first is None or second is None:
        return False
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return False
    return first.high < second.low or second.high < first.low


def _drift_text(
    name: str,
    earlier_point: HistoryPoint | None,
    later_point: HistoryPoint | None,
    earlier_line: HistoryLine,
    later_line: HistoryLine,
) -> str:
    assert earlier_point is not None and later_point is not None  # noqa: PT018
    was, is_now = (f"{point.value:.3f} [{point.low:.3f}, {point.high:.3f}]" for point in (earlier_point, later_point))
    return (
        f"{name} moved at commit {str(earlier_line.commit)[:7]} with the same suite: "
        f"{was} on {earlier_line.time[:10]}, {is_now} on {later_line.time[:10]}: "
        f"{_drift_cause(earlier_line, later_line)}"
    )


def _drift_cause(earlier_line: HistoryLine, later_line: HistoryLine) -> str:
    if earlier_line.tool_version != later_line.tool_version:
        return f"holodeck-action {later_line.tool_version} is another version than {earlier_line.tool_version}"
    return "a model changed, not the code"


def _advice(recent_lines: Sequence[HistoryLine], flaky: Sequence[FlakyCase]) -> Iterator[str]:
    quarantined = recent_lines[-1].quarantined
    if len(recent_lines) == RECENT_RUNS:
        for case in sorted(quarantined):
            if all(line.quarantined.get(case) == "passed" for line in recent_lines):
                yield f"{case} passed its last {RECENT_RUNS} runs: release it from quarantine"
    for found in flaky:
        if found.flaky >= OFTEN_FLAKY and found.id not in quarantined:
            yield f"{found.id} was flaky in {found.flaky} of the last {found.runs} runs: consider quarantine"
