"""What the runs of a suite tell together: trends, flaky cases, drift, and what to do about a quarantine.

All functions are pure and take the lines of one suite, oldest first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holodeck_action.extensions.history.results_history import MOST_IDS, HistoryLine, HistoryPoint
from holodeck_action.record.evaluation import Polarity
from holodeck_action.reports.history import FlakyCase, History, Trend, TrendRun

SHOWN_RUNS = 20
"""Runs of a trend."""
RECENT_RUNS = 10
"""Runs in which flaky cases are counted, and that a quarantined case must pass to be released."""
OFTEN_FLAKY = 3
"""Runs of these in which a case must be flaky before quarantine is advised."""
_ROUNDING = 1e-9
_BARS = "▁▂▃▄▅▆▇█"
_NO_BAR = "·"
_LEAST_SPAN = 0.1
"""Smallest difference that fills a sparkline's height: the default margin of a comparison."""


def history_of(lines: Iterable[HistoryLine], rerun: HistoryLine | None = None) -> History | None:
    """Summarise the runs of a suite.

    Args:
        lines: of one suite, oldest first.
        rerun: a run of an earlier commit that belongs to no trend, and may show a drift; None for none.

    Returns:
        None where no run takes part.
    """
    counting = [line for line in lines if line.counts]
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
        drift=tuple(drifts([*shown, rerun] if rerun is not None and rerun.counts else shown)),
        advice=tuple(_advice(recent, flaky)),
    )


def _metric_trend(name: str, lines: Sequence[HistoryLine]) -> Trend:
    points = [line.metrics.get(name) for line in lines]
    latest = next(point for point in reversed(points) if point is not None)
    return _trend(name, latest.polarity, [None if point is None else point.mean for point in points])


def _trend(name: str, polarity: Polarity, points: Sequence[HistoryPoint | None]) -> Trend:
    def of(part: Callable[[HistoryPoint], float | None]) -> tuple[float | None, ...]:
        return tuple(None if point is None else part(point) for point in points)

    values = of(lambda point: point.value)
    low, high = of(lambda point: point.low), of(lambda point: point.high)
    latest = next((value for value in reversed(values) if value is not None), None)
    return Trend(name, polarity, values, low, high, sparkline(values), latest)


def sparkline(values: Sequence[float | None]) -> str:
    """Return values as bars, `·` for none: the lowest is ▁ and the highest █ where they differ by 0.1 or more.

    Smaller differences fill less than the whole height, around its middle, so that noise does not look like a fall.
    """
    known = [value for value in values if value is not None]
    if not known:
        return _NO_BAR * len(values)
    # A quarter of each, so that no difference of two numbers is too large for one.
    top, low = max(known) / 4, min(known) / 4
    span = max(top - low, _LEAST_SPAN / 4)
    bottom = (top + low - span) / 2
    return "".join(
        _NO_BAR
        if value is None
        else _BARS[min(len(_BARS) - 1, int((value / 4 - bottom) / span * len(_BARS) + _ROUNDING))]
        for value in values
    )


def flaky_cases(lines: Sequence[HistoryLine]) -> tuple[FlakyCase, ...]:
    """Count in how many of these runs each case was flaky; the most often flaky first."""
    groups = _same_code(lines)
    flaky = Counter(case for line in lines for case in {*line.flaky, *_flipped(line, groups)})
    failed = Counter(case for line in lines for case in line.failing)
    ordered = sorted(flaky, key=lambda case: (-flaky[case], case))
    return tuple(FlakyCase(case, flaky[case], failed[case], len(lines)) for case in ordered)


_Code = tuple[str | None, str, str, str]


def _code(line: HistoryLine) -> _Code:
    return line.commit, line.suite_digest, line.measure, line.target


def _same_code(lines: Iterable[HistoryLine]) -> Mapping[_Code, Sequence[HistoryLine]]:
    """Return the runs by commit, suite, metrics and target; those whose commit is not known left out."""
    groups: dict[_Code, list[HistoryLine]] = defaultdict(list)
    for line in lines:
        if line.commit is not None:
            groups[_code(line)].append(line)
    return groups


def _flipped(line: HistoryLine, groups: Mapping[_Code, Sequence[HistoryLine]]) -> set[str]:
    """Return the cases that ended otherwise in another run of the same code; a full list of ids tells nothing."""
    others = [other for other in (line, *groups.get(_code(line), ())) if len(other.failing) < MOST_IDS]
    if line not in others:
        return set()
    return {case for other in others for case in {*line.failing} ^ {*other.failing}}


def drifts(lines: Sequence[HistoryLine]) -> Iterator[str]:
    """Yield a sentence for each number that moved between the two latest runs of the same commit, suite and target.

    Judges, metrics and cases are the same, too.

    It moved when the 95 % intervals of both runs have no value in common. Runs with fewer than 10 cases have none.
    """
    for same in _same_code(lines).values():
        if len(same) > 1:
            before, after = same[-2:]
            if _apart(before.pass_rate, after.pass_rate):
                yield _drift("the pass rate", before.pass_rate, after.pass_rate, before, after)
            for name in sorted(before.metrics.keys() & after.metrics.keys()):
                one, other = before.metrics[name], after.metrics[name]
                if _apart(one.mean, other.mean):
                    yield _drift(name, one.mean, other.mean, before, after)


def _apart(one: HistoryPoint | None, other: HistoryPoint | None) -> bool:
    if one is None or other is None:
        return False
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.high < other.low or other.high < one.low


def _drift(
    name: str, one: HistoryPoint | None, other: HistoryPoint | None, before: HistoryLine, after: HistoryLine
) -> str:
    assert one is not None and other is not None  # noqa: PT018
    was, is_now = (f"{point.value:.3f} [{point.low:.3f}, {point.high:.3f}]" for point in (one, other))
    return (
        f"{name} moved at commit {str(before.commit)[:7]} with the same suite: {was} on {before.time[:10]}, "
        f"{is_now} on {after.time[:10]}: {_cause(before, after)}"
    )


def _cause(before: HistoryLine, after: HistoryLine) -> str:
    if before.tool_version != after.tool_version:
        return f"holodeck-action {after.tool_version} is another version than {before.tool_version}"
    return "a model changed, not the code"


def _advice(recent: Sequence[HistoryLine], flaky: Sequence[FlakyCase]) -> Iterator[str]:
    quarantined = recent[-1].quarantined
    if len(recent) == RECENT_RUNS:
        for case in sorted(quarantined):
            if all(line.quarantined.get(case) == "passed" for line in recent):
                yield f"{case} passed its last {RECENT_RUNS} runs: release it from quarantine"
    for found in flaky:
        if found.flaky >= OFTEN_FLAKY and found.id not in quarantined:
            yield f"{found.id} was flaky in {found.flaky} of the last {found.runs} runs: consider quarantine"
