"""The rows of the viewer's page: which cases it lists, in which order, and what each column holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holodeck_action.reports.comparison import step_text
from holodeck_action.reports.phrases import case_trials_text, place, repository_path, run_alone
from holodeck_action.reports.places import line_address
from holodeck_action.reports.viewer_cases import cost_of, detail_of, latency_of, rounded, tokens_of
from holodeck_action.reports.viewer_data import Change, Detail, Index
from holodeck_action.results.comparison import CaseChange, CaseChangeKind, changed_ids
from holodeck_action.results.conclusion import Conclusion
from holodeck_action.results.record import CaseRecord, Record
from holodeck_action.results.report_views import CaseView, Report, by_position
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

    @property
    def names(self) -> tuple[str, str]:
        """Its id and its title."""
        if self.view is not None:
            return self.view.id, self.view.title
        assert self.base is not None
        return self.base.id, self.base.name or self.base.id

    def detail(self) -> Detail:
        """Return everything about it."""
        return detail_of(self.case, self.verdict, self.base, self.base_verdict, self._remarks())

    def _remarks(self) -> Iterator[str]:
        if self.view is not None and self.view.repeats is not None:
            yield case_trials_text(self.view)
        if self.moved is not None:
            yield from (step_text(step, self.moved.turns, self.moved.trial) for step in self.moved.steps)


def rows_of(suites: Sequence[ViewedSuite]) -> Iterator[Row]:
    """Yield the rows, each made when it is asked for.

    What needs attention comes first, then the rest in the order of the suites, then what only the bases have.
    """
    rows = [_Rows(at, suite) for at, suite in enumerate(suites)]
    for each in rows:
        yield from each.shown(each.report.attention)
    for each in rows:
        yield from each.shown(by_position(each.report.passing, each.report.informational))
    for each in rows:
        yield from each.gone()


class _Rows:
    """The rows of a suite."""

    def __init__(self, at: int, suite: ViewedSuite) -> None:
        self.report = suite.concluded.report
        self._at, self._record, self._verdicts = at, suite.concluded.record, suite.concluded.verdict.cases
        self._base = () if suite.base is None else suite.base.cases
        self._before = () if suite.base is None else judge_cases(suite.base)
        # Places in the base by id; what is shown is taken out.
        self._places = {case.id: at for at, case in enumerate(self._base)}
        compared = self.report.comparison
        # Where each change is found by its case's id: those of large runs are made when they are asked for.
        self._moved = {
            case: (changes, number)
            for changes in (() if compared is None else (compared.regressed, compared.fixed))
            for number, case in enumerate(changed_ids(changes))
        }
        self._unpaired = (
            {} if compared is None else {one.id: _WHY[one.why] for one in compared.unpaired if one.why in _WHY}
        )

    def shown(self, views: Iterable[CaseView]) -> Iterator[Row]:
        """Yield the rows of cases of the report."""
        for view in views:
            at, found = self._places.pop(view.id, None), self._moved.get(view.id)
            moved = None if found is None else found[0][found[1]]
            change: Change | None = None
            if self.report.comparison is not None:
                change = _KINDS[moved.kind] if moved is not None else self._unpaired.get(view.id, "same")
            yield Row(
                self._at,
                self.report,
                view,
                change,
                moved,
                self._record.cases[view.position],
                self._verdicts[view.position],
                None if at is None else self._base[at],
                None if at is None else self._before[at],
            )

    def gone(self) -> Iterator[Row]:
        """Yield the rows of cases that only the base has, once all others are shown."""
        if self.report.comparison is None or not self._places:
            return
        # Cases that another shard runs are not shown, and are not gone.
        own = {case.id for case in self._record.cases}
        for case_id, at in self._places.items():
            if case_id not in own:
                base = self._base[at]
                yield Row(self._at, self.report, None, "gone", None, None, None, base, self._before[at])


class IndexBuilder:
    """Makes the columns of rows, one after the other.

    Attributes:
        index: the columns of the rows that were added.
    """

    def __init__(self, metrics: Sequence[tuple[int, str]], links: Links) -> None:
        """Begin without rows.

        Args:
            metrics: the metrics' columns: index of the suite, and name.
            links: where links lead.
        """
        self._columns = {key: at for at, key in enumerate(metrics)}
        self._links = links
        self._known: dict[str, str] = {}
        self.index: Index = {
            "id": [], "title": [], "suite": [], "position": [], "outcome": [], "flaky": [], "change": [], "reason": [],
            "place": [], "url": [], "tags": [], "command": [], "scores": [[] for _ in metrics],
            "metric_outcomes": [], "latency_ms": [], "tokens": [], "cost_usd": [], "trials": [], "passed_trials": [],
        }  # fmt: skip

    def add(self, row: Row) -> None:
        """Add a row behind the others."""
        index, columns = self.index, self._columns
        self._add_what_is_asked(row)
        turns = [] if row.case is None else list(row.case.turns)
        index["latency_ms"].append(latency_of(turns))
        index["tokens"].append(tokens_of(turns))
        index["cost_usd"].append(cost_of(turns))
        index["trials"].append(0 if row.verdict is None else len(row.verdict.trials))
        index["passed_trials"].append(0 if row.verdict is None else row.verdict.passes)
        letters = ["-"] * len(columns)
        means: list[float | None] = [None] * len(columns)
        for score in () if row.view is None else row.view.scores:
            if score.mean is not None and (row.suite, score.metric) in columns:
                means[columns[row.suite, score.metric]] = rounded(score.mean)
        for name, outcomes in _outcomes(row).items():
            # What only quarantined cases have is no metric of the suite.
            if (row.suite, name) in columns:
                letters[columns[row.suite, name]] = next(_LETTERS[each] for each in _LETTERS if each in outcomes)
        for column, mean in zip(index["scores"], means, strict=True):
            column.append(mean)
        index["metric_outcomes"].append(self._once("".join(letters)))

    def _add_what_is_asked(self, row: Row) -> None:
        index, report, view = self.index, row.report, row.view
        case = view if view is not None else row.base
        assert case is not None
        name, title = row.names
        index["id"].append(name)
        index["title"].append(one_line(title, _LONGEST_TITLE))
        index["suite"].append(row.suite)
        index["position"].append(_behind(report) if view is None else view.position)
        index["outcome"].append("skipped" if view is None else view.outcome)
        index["flaky"].append(view is not None and view.flaky)
        index["change"].append(row.change)
        reason = "the suite does not ask this case any more" if view is None else view.reason
        index["reason"].append(self._once(one_line(reason, _LONGEST_REASON)))
        index["place"].append(one_line(place(case.source, report.folder)))
        provenance = report.provenance
        linked = None if view is None else self._links.line(provenance.commit, provenance.folder, view.source)
        index["url"].append(linked)
        index["tags"].append(sorted({one_line(tag, _LONGEST_TITLE) for tag in case.tags}))
        index["command"].append((run_alone(report, name) if view is not None else None) or "")

    def _once(self, text: str) -> str:
        """Return a text as it is kept already, where many rows have the same."""
        return self._known.setdefault(text, text)


def _behind(report: Report) -> int:
    """Return the place behind the last case of a suite."""
    return len(report.attention) + len(report.passing) + len(report.informational)


def _outcomes(row: Row) -> dict[str, set[Outcome]]:
    found: dict[str, set[Outcome]] = {}
    for metric in () if row.verdict is None else row.verdict.metrics:
        found.setdefault(metric.name, set()).add(metric.outcome)
    return found
