"""The trend of a suite's runs: its data, and sentences for all channels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from holodeck_action.decide.verdict import Verdict
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.record import Record
from holodeck_action.text.plain import one_line

CASES_SHOWN = 10
"""Maximum number of flaky cases to list."""
_UNKNOWN = "–"


class TrendRun(Struct, frozen=True, omit_defaults=True):
    """A run of a trend: start time, commit, cost in US dollars, p95 latency of answers in ms (None: unknown)."""

    time: str
    commit: str | None
    cost_usd: float | None = None
    p95_latency_ms: float | None = None


class Trend(Struct, frozen=True):
    """The pass rate, or the mean of a metric, over several runs.

    Attributes:
        name: name of the metric; empty for the pass rate.
        polarity: whether high or low values are good.
        values: value of each run, oldest first; None if the run has no value.
        low: lower ends of the values' 95 % intervals; None if there is no interval.
        high: upper ends of the intervals; None if there is no interval.
        spark: the values as a bar chart with one character for each.
        latest: the newest value; None if no run has a value.
    """

    name: str
    polarity: Polarity
    values: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    spark: str
    latest: float | None


class FlakyCase(Struct, frozen=True):
    """A case that was recently flaky.

    Attributes:
        id: id of the case.
        flaky: number of runs in which some trials passed and some failed, or in which the outcome differed from another
            run of the same commit and suite.
        failed: number of runs in which it failed.
        runs: number of recent runs considered, at most 10.
    """

    id: str
    flaky: int
    failed: int
    runs: int


class History(Struct, frozen=True):
    """The trend of a suite's runs, without incomplete and filtered runs.

    Attributes:
        runs: the runs, oldest first, at most 20.
        pass_rate: trend of the pass rate.
        metrics: trends of the metrics, sorted by name.
        flaky: cases that were flaky in the latest 10 runs, most often flaky first.
        drift: a sentence for each number that differs between runs of the same commit and suite.
        advice: a sentence for each case to put into quarantine or to release from it.
    """

    runs: tuple[TrendRun, ...]
    pass_rate: Trend
    metrics: tuple[Trend, ...]
    flaky: tuple[FlakyCase, ...]
    drift: tuple[str, ...]
    advice: tuple[str, ...]


class EarlierRuns(Protocol):
    """Stored runs of suites."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about stored runs that cannot be read."""

    def build_trend(self, record: Record, verdict: Verdict, base: Record | None) -> History | None:
        """Return the trend of a suite's earlier runs and a new run; None if there are no earlier runs.

        Args:
            record: record of the new run.
            verdict: verdict of the new run.
            base: record of the base with which the new run is compared; None if it is not compared.
        """


class NoRuns(Struct, frozen=True):
    """An empty `EarlierRuns`."""

    notices: tuple[str, ...] = ()

    def build_trend(self, record: Record, verdict: Verdict, base: Record | None) -> History | None:
        """Return None: there is no trend."""
        return None


NO_RUNS = NoRuns()


def flaky_text(case: FlakyCase) -> str:
    """Return the number of runs in which a case was flaky, as a phrase without the case's id."""
    failed = f", failed in {case.failed}" if case.failed else ""
    return f"flaky in {case.flaky} of the last {case.runs} runs{failed}"


def history_remarks(history: History) -> Iterator[tuple[str, str]]:
    """Yield (kind, sentence) of each remark; the kind is `drift` or `advice`, and sentences contain untrusted names."""
    for sentence in history.drift:
        yield "drift", sentence
    for sentence in history.advice:
        yield "advice", sentence


def history_lines(history: History) -> Iterator[str]:
    """Yield the lines of a history for the console."""
    yield from align_columns(
        [one_line(trend.name, 60) or "pass rate", trend.spark, latest_text(trend)] for trend in all_trends(history)
    )
    for case in history.flaky[:CASES_SHOWN]:
        yield f"{one_line(case.id, 80)}: {flaky_text(case)}"
    for kind, sentence in history_remarks(history):
        yield f"{kind}: {one_line(sentence, 600)}"


def align_columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield rows of strings as lines with aligned columns."""
    found = list(rows)
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    for row in found:
        yield "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()


def runs_text(count: int) -> str:
    """Return a number of runs in words, such as `3 runs`."""
    return f"{count} {'run' if count == 1 else 'runs'}"


def all_trends(history: History) -> Iterator[Trend]:
    """Yield the trend of the pass rate, then the trends of metrics."""
    yield history.pass_rate
    yield from history.metrics


def latest_text(trend: Trend) -> str:
    """Return the newest value of a trend as text; a dash if there is no value."""
    return _UNKNOWN if trend.latest is None else f"{trend.latest:.2f}"
