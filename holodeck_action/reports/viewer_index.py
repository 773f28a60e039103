"""The rows of the viewer's page: which cases it lists, in which order, and what each column holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holodeck_action.reports.comparison import step_text
from holodeck_action.reports.phrases import case_trials_text, place, repository_path, run_alone
from holodeck_action.reports.places import line_address
from holodeck_action.reports.viewer_cases import cost_of, detail_of, latency_of, rounded, tokens_of
from holodeck_action.reports.viewer_data import Change, Detail, Index
from holodeck_action.results.comparison import CaseChange, CaseChangeKind
from holodeck_action.results.conclusion import Conclusion
from holodeck_action.results.record import CaseRecord, Record
from holodeck_action.results.report_views import CaseView, Report
from holodeck_action.results.survey import judge_cases
from holodeck_action.results.verdict import CaseVerdict, Outcome
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.plain import one_line

_LONGEST_TITLE = 300
_LONGEST_REASON = 200
_LETTERS: Mapping[Outcome, str] = {
    "failed": "f",
    "error": "e",
    "passed": "p",
    "informational": "i",
    "skipped": "s",
}
"""By outcome of a metric; the first one that a case has counts."""
_KINDS: Mapping[CaseChangeKind, Change] = {"regressed": "regressed", "fixed": "improved"}
_WHY: Mapping[str, Change | None] = {"added": "new", "changed": "changed", "not evaluated": None}


@dataclass(frozen=True, slots=True)
class Links:
    """Where the page's links lead: trusted addresses.

    Attributes:
        repository: such as `https://github.com/octo/shop`; None where it is not known.
        run: the workflow's run; None outside of one.
    """

    repository: str | None = None
    run: str | None = None

    def line(self, commit: str | None, folder: str | None, source: SourceMark) -> str | None:
        """Return the address of a line as it is at a commit; None where it is not known."""
        path = repository_path(folder, source)
        if path is None or commit is None or self.repository is None:
            return None
        return line_address(self.repository, commit, path, source.line)


NO_LINKS = Links()


@dataclass(frozen=True, slots=True)
class ViewedSuite:
    """A suite of the page, and the record of what it is compared with (None: nothing)."""

    concluded: Conclusion
    base: Record | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A case of the page; `view` is None for one that only the base has.

    `moved` says how it changed, where it passes on one side and fails on the other.
    """

    suite: int
    report: Report
    view: CaseView | None
    change: Change | None
    moved: CaseChange | None
    case: CaseRecord | None
    verdict: CaseVerdict | None
    base: CaseRecord | None
    base_verdict: CaseVerdict | None

    def detail(self) -> Detail:
        """Return everything about it."""
        return detail_of(self.case, self.verdict, self.base, self.base_verdict, self._remarks())

    def _remarks(self) -> Iterator[str]:
        if self.view is not None and self.view.repeats is not None:
            yield case_trials_text(self.view)
        if self.moved is not None:
            yield from (step_text(step, self.moved.turns, self.moved.trial) for step in self.moved.steps)


def rows_of(suites: Sequence[ViewedSuite], chosen: Callable[[str, str], bool]) -> list[Row]:
    """Return the rows: what needs attention first, then the rest, then what only the bases have.

    Args:
        suites: of the page.
        chosen: tells by id and title which cases are wanted.
    """
    found = [row for at, suite in enumerate(suites) for row in _rows(at, suite) if chosen(*_names(row))]
    attention = {at: {case.id for case in suite.concluded.report.attention} for at, suite in enumerate(suites)}

    def rank(row: Row) -> int:
        return 2 if row.view is None else 0 if row.view.id in attention[row.suite] else 1

    return sorted(found, key=rank)


def _names(row: Row) -> tuple[str, str]:
    case = row.view if row.view is not None else row.base
    assert case is not None
    return case.id, case.title if isinstance(case, CaseView) else case.name or case.id


def _rows(at: int, suite: ViewedSuite) -> Iterator[Row]:
    record, verdict, report = suite.concluded.record, suite.concluded.verdict, suite.concluded.report
    cases = {case.id: case for case in record.cases}
    verdicts = {judged.id: judged for judged in verdict.cases}
    before = {} if suite.base is None else {case.id: case for case in suite.base.cases}
    judged_before = {} if suite.base is None else {judged.id: judged for judged in judge_cases(suite.base)}
    compared = report.comparison
    moved = {} if compared is None else {one.id: one for one in (*compared.regressed, *compared.fixed)}
    unpaired = {} if compared is None else {one.id: _WHY[one.why] for one in compared.unpaired if one.why in _WHY}
    for view in (*report.attention, *sorted((*report.passing, *report.informational), key=lambda one: one.position)):
        change: Change | None = None
        if compared is not None:
            one = moved.get(view.id)
            change = _KINDS[one.kind] if one is not None else unpaired.get(view.id, "same")
        yield Row(
            at,
            report,
            view,
            change,
            moved.get(view.id),
            cases[view.id],
            verdicts[view.id],
            before.pop(view.id, None),
            judged_before.get(view.id),
        )
    if compared is not None:
        for case in (one for one in before.values() if one.id not in cases):
            yield Row(at, report, None, "gone", None, None, None, case, judged_before.get(case.id))


def index_of(rows: Sequence[Row], metrics: Sequence[tuple[int, str]], links: Links) -> Index:
    """Return the columns of the rows.

    Args:
        rows: of the page.
        metrics: the metrics' columns: index of the suite, and name.
        links: where links lead.
    """
    columns = {key: at for at, key in enumerate(metrics)}
    index: Index = {
        "id": [], "title": [], "suite": [], "position": [], "outcome": [], "flaky": [], "change": [], "reason": [],
        "place": [], "url": [], "tags": [], "command": [], "scores": [[None] * len(rows) for _ in metrics],
        "metric_outcomes": [], "latency_ms": [], "tokens": [], "cost_usd": [], "trials": [], "passed_trials": [],
    }  # fmt: skip
    for at, row in enumerate(rows):
        _add_what_is_asked(index, row, links)
        turns = [] if row.case is None else list(row.case.turns)
        index["latency_ms"].append(latency_of(turns))
        index["tokens"].append(tokens_of(turns))
        index["cost_usd"].append(cost_of(turns))
        index["trials"].append(0 if row.verdict is None else len(row.verdict.trials))
        index["passed_trials"].append(0 if row.verdict is None else row.verdict.passes)
        letters = ["-"] * len(metrics)
        for score in () if row.view is None else row.view.scores:
            if score.mean is not None and (row.suite, score.metric) in columns:
                index["scores"][columns[row.suite, score.metric]][at] = rounded(score.mean)
        for name, outcomes in _outcomes(row).items():
            # What only quarantined cases have is no metric of the suite.
            if (row.suite, name) in columns:
                letters[columns[row.suite, name]] = next(_LETTERS[each] for each in _LETTERS if each in outcomes)
        index["metric_outcomes"].append("".join(letters))
    return index


def _add_what_is_asked(index: Index, row: Row, links: Links) -> None:
    report, view = row.report, row.view
    case = view if view is not None else row.base
    assert case is not None
    name, title = _names(row)
    index["id"].append(name)
    index["title"].append(one_line(title, _LONGEST_TITLE))
    index["suite"].append(row.suite)
    index["position"].append(_behind(report) if view is None else view.position)
    index["outcome"].append("skipped" if view is None else view.outcome)
    index["flaky"].append(view is not None and view.flaky)
    index["change"].append(row.change)
    reason = "the suite does not ask this case any more" if view is None else view.reason
    index["reason"].append(one_line(reason, _LONGEST_REASON))
    index["place"].append(one_line(place(case.source, report.folder)))
    linked = None if view is None else links.line(report.provenance.commit, report.provenance.folder, view.source)
    index["url"].append(linked)
    index["tags"].append(sorted({one_line(tag, _LONGEST_TITLE) for tag in case.tags}))
    index["command"].append((run_alone(report, name) if view is not None else None) or "")


def _behind(report: Report) -> int:
    """Return the place behind the last case of a suite."""
    return len(report.attention) + len(report.passing) + len(report.informational)


def _outcomes(row: Row) -> dict[str, set[Outcome]]:
    found: dict[str, set[Outcome]] = {}
    for metric in () if row.verdict is None else row.verdict.metrics:
        found.setdefault(metric.name, set()).add(metric.outcome)
    return found
