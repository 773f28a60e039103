"""Renders histories as text for `history show`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from holodeck_action.extensions.history.history_lines import HistoryLine, HistoryPoint
from holodeck_action.extensions.history.trends import SHOWN_RUNS
from holodeck_action.reports.history import (
    CASES_SHOWN,
    History,
    align_columns,
    all_trends,
    flaky_text,
    history_lines,
    history_remarks,
    latest_text,
    runs_text,
)
from holodeck_action.reports.phrases import duration_text, usd_text
from holodeck_action.text.code_spans import cell, inline_code
from holodeck_action.text.plain import one_line

_UNKNOWN = "–"
_COMMIT_LENGTH = 7


class SuiteHistory(Struct, frozen=True):
    """The history of a suite.

    Attributes:
        suite: name of the suite.
        lines: lines of the suite, oldest first.
        history: trends over the complete, unfiltered runs; None if there are no such runs.
    """

    suite: str
    lines: tuple[HistoryLine, ...]
    history: History | None


def console_history(suites: Sequence[SuiteHistory]) -> str:
    """Render histories as plain text."""
    return "\n\n".join("\n".join(_console_lines(suite)) for suite in suites) + "\n"


def _console_lines(suite: SuiteHistory) -> Iterator[str]:
    yield f"{one_line(suite.suite)}: {_count_text(suite.lines)}"
    yield ""
    yield from align_columns([_HEADER, *(_row(line) for line in suite.lines[-SHOWN_RUNS:])])
    if suite.history is None:
        return
    yield ""
    yield from history_lines(suite.history)


def markdown_history(suites: Sequence[SuiteHistory]) -> str:
    """Render histories as GitHub Flavored Markdown."""
    return "\n".join("\n".join(_markdown_lines(suite)) for suite in suites)


def _markdown_lines(suite: SuiteHistory) -> Iterator[str]:
    yield f"## {inline_code(suite.suite, 200)}: {_count_text(suite.lines)}\n"
    yield from _table(_HEADER, ("---",) * len(_HEADER), map(_row, suite.lines[-SHOWN_RUNS:]))
    if suite.history is None:
        return
    trends = [
        (one_line(trend.name, 60) or "pass rate", trend.spark, latest_text(trend))
        for trend in all_trends(suite.history)
    ]
    yield from _table(("Measure", "Trend", "Latest"), ("---", "---", "--:"), trends)
    for case in suite.history.flaky[:CASES_SHOWN]:
        yield f"- {inline_code(case.id, 100)}: {flaky_text(case)}"
    for kind, sentence in history_remarks(suite.history):
        yield f"- {kind.capitalize()}: {inline_code(sentence, 600)}"
    yield ""


def _table(head: Sequence[str], alignments: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join(alignments)} |"
    for row in rows:
        yield f"| {' | '.join(cell(text, 100) for text in row)} |"
    yield ""


_HEADER = ("started", "commit", "verdict", "pass rate", "cost", "tokens", "p95")


def _row(line: HistoryLine) -> Sequence[str]:
    return (
        line.moment.strftime("%Y-%m-%d %H:%M"),
        _UNKNOWN if line.commit is None else line.commit[:_COMMIT_LENGTH],
        _verdict(line),
        _UNKNOWN if line.pass_rate is None else point_text(line.pass_rate),
        _UNKNOWN if line.cost_usd is None else usd_text(line.cost_usd),
        _UNKNOWN if line.tokens is None else f"{line.tokens:,}",
        _UNKNOWN if line.p95_latency_ms is None else duration_text(line.p95_latency_ms),
    )


def _verdict(line: HistoryLine) -> str:
    missing = not line.complete and line.outcome == "failed"
    return f"{line.outcome}{', incomplete' if missing else ''}{', filtered' if line.partial else ''}"


def point_text(point: HistoryPoint) -> str:
    """Return a value and its interval as text, such as `0.900 [0.850, 0.940]`."""
    interval = "" if point.low is None or point.high is None else f" [{point.low:.3f}, {point.high:.3f}]"
    return f"{point.value:.3f}{interval}"


def _count_text(lines: Sequence[HistoryLine]) -> str:
    shown = f", the latest {SHOWN_RUNS} shown" if len(lines) > SHOWN_RUNS else ""
    return f"{runs_text(len(lines))}{shown}"
