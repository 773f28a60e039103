"""The columns of the viewer's page, packed block by block while its rows are gone through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from holodeck_action.decide.consumption import cost_of
from holodeck_action.decide.summaries import case_means
from holodeck_action.decide.verdict import Outcome
from holodeck_action.record.facts import value_or_none
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.page.viewer_cases import rounded, tokens_of
from holodeck_action.reports.page.viewer_data import Index
from holodeck_action.reports.page.viewer_index import Links, Row
from holodeck_action.reports.phrases import place, run_alone
from holodeck_action.text.kept_texts import KeptTexts
from holodeck_action.text.plain import one_line

SHOWN_CASES = 10
"""Cases that are listed for readers without JavaScript."""
_BLOCK_ROWS = 500
_LONGEST_TITLE = 300
_LONGEST_REASON = 200
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
    return [bare(item) for item in value] if isinstance(value, list) else value


def _timeless(value: Any) -> Any:
    return [None] * len(value) if isinstance(value, list) else None


class ColumnBuilder:
    """Makes the columns of rows, one after the other; they are kept as JSON.

    Attributes:
        rows: how many were added.
        first: what readers without JavaScript see of the first `SHOWN_CASES` rows.
        ends: the lowest and the highest score of each metric; empty where there is none.
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
        self.ends: list[tuple[float, ...]] = [() for _ in metrics]
        self._columns = {key: at for at, key in enumerate(metrics)}
        self._links, self._texts, self._canonical = links, texts, canonical
        self._block = self._empty()
        self._places: dict[str, list[int]] = {name: [] for name in self._block}
        self._score_places: list[list[int]] = [[] for _ in metrics]

    def add(self, row: Row) -> None:
        """Add a row behind the others."""
        block, columns = self._block, self._columns
        self._add_what_is_asked(row)
        turns = [] if row.case is None else list(row.case.turns)
        took = None if row.case is None else value_or_none(row.case.took_ms)
        block["latency_ms"].append(None if took is None else round(took, 1))
        block["tokens"].append(tokens_of(turns))
        block["cost_usd"].append(cost_of(turns).whole)
        block["trials"].append(0 if row.verdict is None else len(row.verdict.trials))
        block["passed_trials"].append(0 if row.verdict is None else row.verdict.passes)
        letters = ["-"] * len(columns)
        means: list[float | None] = [None] * len(columns)
        metrics = [] if row.verdict is None else [*row.verdict.metrics]
        # What only quarantined cases have is no metric of the suite.
        for name, mean in case_means(metrics).items():
            if (at := columns.get((row.suite, name))) is not None:
                means[at] = rounded(mean)
        for metric in metrics:
            if (at := columns.get((row.suite, metric.name))) is not None:
                letters[at] = min(letters[at], _LETTERS[metric.outcome], key=_WORST_FIRST.index)
        for column, score in zip(block["scores"], means, strict=True):
            column.append(score)
        block["metric_outcomes"].append("".join(letters))
        self.rows += 1
        if len(block["id"]) == _BLOCK_ROWS:
            self.pack()

    def pack(self) -> None:
        """Keep the rows that are not yet, and begin another block."""
        block, self._block = self._block, self._empty()
        if not block["id"]:
            return
        for name, column in block.items():
            if name != "scores":
                self._places[name].append(self._packed(name, column))
        for number, scores in enumerate(block["scores"]):
            self._score_places[number].append(self._packed("scores", scores))
            known = [*self.ends[number], *(score for score in scores if score is not None)]
            self.ends[number] = (min(known), max(known)) if known else ()

    def pieces(self) -> Iterator[bytes]:
        """Yield the JSON of the columns, see `Index`, once all rows are packed."""
        before = b"{"
        for name, places in self._places.items():
            yield before + f'"{name}":['.encode()
            if name == "scores":
                for number, column in enumerate(self._score_places):
                    yield b",[" if number else b"["
                    yield from self._joined(column)
                    yield b"]"
            else:
                yield from self._joined(places)
            yield b"]"
            before = b","
        yield b"}"

    def _joined(self, places: Sequence[int]) -> Iterator[bytes]:
        for number, at in enumerate(places):
            yield b"," * bool(number) + self._texts.read(at)

    def _packed(self, name: str, column: object) -> int:
        # The name says what a canonical page leaves out.
        return self._texts.add(page_json({name: column}, self._canonical)[len(name) + 5 : -2])

    def _empty(self) -> Index:
        return {
            "id": [], "title": [], "suite": [], "position": [], "outcome": [], "flaky": [], "change": [], "reason": [],
            "place": [], "url": [], "tags": [], "command": [], "scores": [[] for _ in self.ends],
            "metric_outcomes": [], "latency_ms": [], "tokens": [], "cost_usd": [], "trials": [], "passed_trials": [],
        }  # fmt: skip

    def _add_what_is_asked(self, row: Row) -> None:
        block, report, case, verdict = self._block, row.report, row.asked, row.verdict
        title = one_line(case.name or case.id, _LONGEST_TITLE)
        outcome: Outcome = "skipped" if verdict is None else verdict.outcome
        reason = "the suite does not ask this case any more" if verdict is None else verdict.reason
        reason = one_line(reason, _LONGEST_REASON)
        where = one_line(place(case.source, report.folder))
        if self.rows < SHOWN_CASES:
            self.first.append({"title": title, "outcome": outcome, "place": where, "reason": reason})
        block["id"].append(case.id)
        block["title"].append(title)
        block["suite"].append(row.suite)
        block["position"].append(row.position)
        block["outcome"].append(outcome)
        block["flaky"].append(verdict is not None and verdict.flaky)
        block["change"].append(row.change)
        block["reason"].append(reason)
        block["place"].append(where)
        provenance = report.provenance
        gone = verdict is None
        linked = None if gone else self._links.line(provenance.commit, provenance.folder, case.source)
        block["url"].append(linked)
        block["tags"].append(sorted({one_line(tag, _LONGEST_TITLE) for tag in case.tags}))
        block["command"].append("" if gone else run_alone(report, case.id) or "")
