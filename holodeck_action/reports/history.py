"""What earlier runs of a suite tell together, as plain data and as the sentences that all channels share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from holodeck_action.decide.verdict import Verdict
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.record import Record
from holodeck_action.text.plain import one_line

CASES_SHOWN = 10
"""Flaky cases that are listed."""
_UNKNOWN = "–"


class TrendRun(Struct, frozen=True, omit_defaults=True):
    """A run of a trend: when it started, its commit, US dollars, and 95 % latency of answers (None: not known)."""

    time: str
    commit: str | None
    cost_usd: float | None = None
    p95_latency_ms: float | None = None


class Trend(Struct, frozen=True):
    """The pass rate or a metric's mean over runs.

    Attributes:
        name: the metric's; empty for the pass rate.
        polarity: whether high or low values are good.
        values: one a run, oldest first; None where the run has none.
        low: lower ends of their 95 % intervals; None where there is none.
        high: upper ends.
        spark: the values as bars, one character each.
        latest: the newest value; None where no run has one.
    """

    name: str
    polarity: Polarity
    values: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    spark: str
    latest: float | None


class FlakyCase(Struct, frozen=True):
    """A case that was flaky lately.

    Attributes:
        id: the case's.
        flaky: number of runs in which its trials disagreed, or that ended otherwise than another run of the same
            commit and suite.
        failed: number of runs in which it failed.
        runs: number of the latest runs that were looked at, at most 10.
    """

    id: str
    flaky: int
    failed: int
    runs: int


class History(Struct, frozen=True):
    """What the runs of a suite tell together; runs that were incomplete or filtered take no part.

    Attributes:
        runs: those of the trends, oldest first, at most 20.
        pass_rate: its trend.
        metrics: their trends, in order of name.
        flaky: cases that were flaky in the latest 10 runs, most often flaky first.
        drift: where the same commit and suite gave other numbers, each one sentence.
        advice: which cases to release from quarantine and which to put there, each one sentence.
    """

    runs: tuple[TrendRun, ...]
    pass_rate: Trend
    metrics: tuple[Trend, ...]
    flaky: tuple[FlakyCase, ...]
    drift: tuple[str, ...]
    advice: tuple[str, ...]


class EarlierRuns(Protocol):
    """Runs that are kept, of one suite or several."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What is said of those that could not be read."""

    def with_run(self, record: Record, verdict: Verdict, base: Record | None) -> History | None:
        """Return what those of a suite tell together with one more run; None where there are none.

        Args:
            record: of the run.
            verdict: what it was judged to be.
            base: what it is compared with; None for nothing.
        """


class NoRuns(Struct, frozen=True):
    """No earlier runs."""

    notices: tuple[str, ...] = ()

    def with_run(self, record: Record, verdict: Verdict, base: Record | None) -> History | None:
        """Return None; see `EarlierRuns`."""
        return None


NO_RUNS = NoRuns()


def flaky_text(case: FlakyCase) -> str:
    """Return how often a case was flaky, without its id."""
    failed = f", failed in {case.failed}" if case.failed else ""
    return f"flaky in {case.flaky} of the last {case.runs} runs{failed}"


def remarks(history: History) -> Iterator[tuple[str, str]]:
    """Yield what there is to do or to know, as what it is and a sentence that holds text of suites."""
    for sentence in history.drift:
        yield "drift", sentence
    for sentence in history.advice:
        yield "advice", sentence


def history_lines(history: History) -> Iterator[str]:
    """Yield what the console says of a history."""
    yield from aligned(
        [one_line(trend.name, 60) or "pass rate", trend.spark, latest_text(trend)] for trend in trends_of(history)
    )
    for case in history.flaky[:CASES_SHOWN]:
        yield f"{one_line(case.id, 80)}: {flaky_text(case)}"
    for kind, sentence in remarks(history):
        yield f"{kind}: {one_line(sentence, 600)}"


def aligned(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines, their columns padded to one width each."""
    found = list(rows)
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    for row in found:
        yield "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()


def runs_text(count: int) -> str:
    """Return a number of runs."""
    return f"{count} {'run' if count == 1 else 'runs'}"


def trends_of(history: History) -> Iterator[Trend]:
    """Yield the trend of the pass rate, then those of metrics."""
    yield history.pass_rate
    yield from history.metrics


def latest_text(trend: Trend) -> str:
    """Return the newest value of a trend."""
    return _UNKNOWN if trend.latest is None else f"{trend.latest:.3f}"
