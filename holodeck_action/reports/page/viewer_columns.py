"""The columns of the viewer's page, packed block by block while its rows are gone through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from holodeck_action.decide.consumption import cost_of
from holodeck_action.decide.summaries import case_means
from holodeck_action.decide.verdict import Outcome
from holodeck_action.record.facts import value_or_none
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.page.viewer_cases import tokens_of
from holodeck_action.reports.page.viewer_index import Links, Row
from holodeck_action.reports.phrases import place, run_alone
from holodeck_action.text.kept_texts import KeptTexts
from holodeck_action.text.plain import one_line

SHOWN_CASES = 10
"""Cases that are listed for readers without JavaScript."""
_BLOCK_ROWS = 500
_LONGEST_TITLE = 300
_LONGEST_REASON = 200
_GONE = "the suite does not ask this case any more"
_LETTERS: dict[Outcome, str] = {
    "failed": "f",
    "error": "e",
    "passed": "p",
    "informational": "i",
    "skipped": "s",
}
"""By outcome of a metric."""
_WORST_FIRST = "fepis-"
"""The first one of these letters that a case has counts."""


def page_json(value: Any, canonical: bool) -> bytes:
    """Return data as JSON in one line, of a canonical page without what differs between runs and machines."""
    return to_json(bare(value) if canonical else value)


def bare(value: Any) -> Any:
    """Return data of a page without what differs between runs and machines."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: _timeless(item) if key.endswith("_ms") else bare(item) for key, item in value.items()}
    return [bare(item) for item in value] if isinstance(value, list | tuple) else value


def _timeless(value: Any) -> Any:
    return [None] * len(value) if isinstance(value, list) else None


class ColumnBuilder:
    """Makes the columns of rows, one after the other, see `Index` in `data.ts`; blocks of them are kept as JSON.

    Attributes:
        rows: how many were added.
        first: what readers without JavaScript see of the first `SHOWN_CASES` rows.
    """

    def __init__(self, metrics: Sequence[tuple[int, str]], links: Links, texts: KeptTexts, *, canonical: bool) -> None:
        """Begin without rows.

        Args:
            metrics: the metrics' columns: index of the suite, and name.
            links: where links lead.
            texts: keeps the blocks.
            canonical: whether what differs between runs is left out.
        """
        self.rows = 0
        self.first: list[dict[str, object]] = []
        self._columns = {key: at for at, key in enumerate(metrics)}
        self._links, self._texts, self._canonical = links, texts, canonical
        self._block: dict[str, list[Any]] = defaultdict(list)
        self._blocks: list[int] = []

    def add(self, row: Row) -> None:
        """Add a row behind the others."""
        if len(self._block["id"]) == _BLOCK_ROWS:
            self._pack()
        for name, value in {**self._asked(row), **self._found(row)}.items():
            self._block[name].append(value)
        self.rows += 1

    def pieces(self) -> Iterator[bytes]:
        """Yield the JSON of all blocks, once all rows are added."""
        self._pack()
        before = b"["
        for block in self._blocks:
            yield before + self._texts.read(block)
            before = b","
        yield b"]"

    def _pack(self) -> None:
        """Keep the rows that are not yet, and begin another block."""
        self._blocks.append(self._texts.add(page_json(self._block, self._canonical)))
        self._block = defaultdict(list)

    def _found(self, row: Row) -> dict[str, object]:
        """Return what came out."""
        turns = [] if row.case is None else list(row.case.turns)
        took = None if row.case is None else value_or_none(row.case.took_ms)
        metrics = [] if row.verdict is None else [*row.verdict.metrics]
        # What only quarantined cases have is no metric of the suite.
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
            "tokens": tokens_of(turns),
            "cost_usd": cost_of(turns).whole,
            "trials": 0 if row.verdict is None else len(row.verdict.trials),
            "passed_trials": 0 if row.verdict is None else row.verdict.passes,
        }

    def _asked(self, row: Row) -> dict[str, object]:
        """Return what was asked, and its outcome."""
        report, case, verdict = row.report, row.asked, row.verdict
        provenance = report.provenance
        shown: dict[str, object] = {
            "title": one_line(case.name or case.id, _LONGEST_TITLE),
            "outcome": "skipped" if verdict is None else verdict.outcome,
            "reason": one_line(_GONE if verdict is None else verdict.reason, _LONGEST_REASON),
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
            "command": "" if verdict is None else run_alone(report, case.id) or "",
        }
