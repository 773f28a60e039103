"""Builds the columns of the viewer's page from its rows, block by block."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from holodeck_action.decide.consumption import Amounts, case_costs
from holodeck_action.decide.summaries import case_means
from holodeck_action.decide.verdict import Outcome
from holodeck_action.record.facts import value_or_none
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.page.run_columns import case_difference
from holodeck_action.reports.page.viewer_cases import known_tokens
from holodeck_action.reports.page.viewer_index import PageLinks, Row
from holodeck_action.reports.phrases import place, run_command
from holodeck_action.text.plain import one_line

PACKING_LEVEL = 6
GZIP = 31
"""The window size by which zlib writes the gzip format."""
SHOWN_CASES = 10
"""Maximum number of cases to list for readers without JavaScript."""
_BLOCK_ROWS = 500
_LONGEST_TITLE = 300
_LONGEST_REASON = 200
_LONGEST_ANSWER = 120
_SCORES_SHOWN = 4
_NOT_IN_SUITE = "the suite no longer has this case"
_ONLY_OTHER_RUNS = "only other runs have this case"
_LETTERS: dict[Outcome, str] = {
    "failed": "f",
    "error": "e",
    "passed": "p",
    "informational": "i",
    "skipped": "s",
}
"""Letter of each outcome of a metric."""
_WORST_FIRST = "fepis-"
"""The letters by severity, worst first: a case gets the worst letter of its turns."""


def page_json(value: Any, canonical: bool) -> bytes:
    """Return data as JSON on one line; with `canonical`, without data that differ between runs and machines."""
    return to_json(without_volatile(value) if canonical else value)


def without_volatile(value: Any) -> Any:
    """Return page data without times, which differ between runs, and with rounded numbers, which differ by machine."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {
            key: _without_times(item) if key.endswith("_ms") else without_volatile(item) for key, item in value.items()
        }
    return [without_volatile(item) for item in value] if isinstance(value, list | tuple) else value


def _without_times(value: Any) -> Any:
    return [None] * len(value) if isinstance(value, list) else None


class ColumnBuilder:
    """Builds the columns of rows, in the form of `Index` in `data.ts`, and compresses blocks of them as JSON.

    Attributes:
        rows: number of rows added.
        first: the first `SHOWN_CASES` rows, for readers without JavaScript.
    """

    def __init__(self, metrics: Sequence[tuple[int, str]], links: PageLinks, *, canonical: bool) -> None:
        """Start without rows.

        Args:
            metrics: for each metric's column, the index of its suite and its name.
            links: URLs for links.
            canonical: whether to omit times and other data that differ between runs.
        """
        self.rows = 0
        self.first: list[dict[str, object]] = []
        self._columns = {key: at for at, key in enumerate(metrics)}
        self._links, self._canonical = links, canonical
        self._block: dict[str, list[Any]] = defaultdict(list)
        self._packer = zlib.compressobj(PACKING_LEVEL, wbits=GZIP)
        self._pieces: list[bytes] = []

    def add(self, row: Row) -> None:
        """Append a row."""
        if len(self._block["id"]) == _BLOCK_ROWS:
            self._end_block()
        columns = {**self._question_columns(row), **self._outcome_columns(row), **_run_columns(row)}
        for name, value in columns.items():
            self._block[name].append(value)
        self.rows += 1

    def packed(self) -> Sequence[bytes]:
        """Return the compressed JSON list of all blocks in pieces; call it once, after all rows are added."""
        self._end_block()
        return [*self._pieces, self._packer.compress(b"]"), self._packer.flush()]

    def _end_block(self) -> None:
        """Compress the current block and start the next one."""
        before = b"," if self._pieces else b"["
        self._pieces.append(self._packer.compress(before + page_json(self._block, self._canonical)))
        self._block = defaultdict(list)

    def _outcome_columns(self, row: Row) -> dict[str, object]:
        """Return a row's values by column, for the columns about its outcome."""
        turns = [] if row.case is None else list(row.case.turns)
        took = None if row.case is None else value_or_none(row.case.took_ms)
        metrics = [] if row.verdict is None else [*row.verdict.metrics]
        # A metric that only quarantined cases have is not a metric of the suite.
        means: list[float | None] = [None] * len(self._columns)
        for name, mean in case_means(metrics).items():
            if (at := self._columns.get((row.suite, name))) is not None:
                means[at] = float(f"{mean:.12g}")
        letters = ["-"] * len(self._columns)
        for metric in metrics:
            if (at := self._columns.get((row.suite, metric.name))) is not None:
                letters[at] = min(letters[at], _LETTERS[metric.outcome], key=_WORST_FIRST.index)
        return {
            "scores": means,
            "metric_outcomes": "".join(letters),
            "latency_ms": None if took is None else round(took, 1),
            "tokens": known_tokens(turns),
            "cost_usd": (Amounts() if row.case is None else case_costs(row.case)).complete_sum,
            "trials": 0 if row.verdict is None else len(row.verdict.trials),
            "passed_trials": 0 if row.verdict is None else row.verdict.passes,
        }

    def _question_columns(self, row: Row) -> dict[str, object]:
        """Return a row's values by column, for the columns that identify and describe the case."""
        report, case, verdict = row.report, row.latest_case, row.verdict
        provenance = report.provenance
        shown: dict[str, object] = {
            "title": one_line(case.name or case.id, _LONGEST_TITLE),
            "outcome": "skipped" if verdict is None else verdict.outcome,
            "reason": _reason(row),
            "place": one_line(place(case.source, report.folder)),
        }
        if self.rows < SHOWN_CASES:
            self.first.append(shown)
        return {
            "id": case.id,
            **shown,
            "suite": row.suite,
            "position": row.position,
            "flaky": verdict is not None and verdict.flaky,
            "change": row.change,
            "url": None if verdict is None else self._links.line(provenance.commit, provenance.folder, case.source),
            "tags": sorted({one_line(tag, _LONGEST_TITLE) for tag in case.tags}),
            "command": "" if verdict is None else run_command(report, case.id) or "",
        }


def _run_columns(row: Row) -> dict[str, object]:
    """Return a row's values by column, for the columns about other runs; empty if the page shows one run."""
    if not row.others:
        return {}
    others = (None if other is None else other.verdict for other in row.others)
    return {
        "runs": [None if one is None else one.outcome for one in (row.verdict, *others)],
        "difference": case_difference(row.case, row.verdict, row.others),
    }


def _reason(row: Row) -> str:
    """Return a row's text: the scores and answer of a passing case, else the reason of the outcome; a fixed text for a
    case that this run lacks."""
    if row.verdict is None:
        return _ONLY_OTHER_RUNS if row.base is None else _NOT_IN_SUITE
    return _passing_text(row) or one_line(row.verdict.reason, _LONGEST_REASON)


def _passing_text(row: Row) -> str:
    """Return the scores and the answer of a case that passes in its only trial; an empty string for other cases."""
    case, verdict = row.case, row.verdict
    if case is None or verdict is None or verdict.outcome != "passed" or case.repeat > 1:
        return ""
    answers = [turn.response for turn in case.turns if turn.response]
    means = list(case_means(verdict.metrics).items())[:_SCORES_SHOWN]
    scores = ", ".join(f"{one_line(name, 40)} {mean:.4g}" for name, mean in means)
    return " · ".join([*filter(None, [scores]), *(one_line(answer, _LONGEST_ANSWER) for answer in answers[-1:])])
