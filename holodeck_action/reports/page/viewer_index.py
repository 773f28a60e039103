"""The rows of the viewer's page: one for each case, in the order of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import CaseChange, CaseChangeKind
from holodeck_action.decide.survey import judge_cases
from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.record.record import CaseRecord
from holodeck_action.reports.case_text import agent_text
from holodeck_action.reports.comment.places import line_url
from holodeck_action.reports.comparison import step_text
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.page.run_columns import CaseInRun, OtherCases, RunColumn
from holodeck_action.reports.page.viewer_cases import case_detail
from holodeck_action.reports.phrases import case_trials_text, repository_path
from holodeck_action.reports.report_views import CaseView, Report
from holodeck_action.suite.errors import SourceMark

Change = Literal["regressed", "flaky", "undecided", "improved", "new", "gone", "changed", "same"]
"""Change of a case since the base: `changed` for other inputs or expectations, `gone` if the suite lacks it now."""
_KINDS: Mapping[CaseChangeKind, Change] = {
    "regressed": "regressed",
    "fixed": "improved",
    "flaky": "flaky",
    "undecided": "undecided",
}
_WHY: Mapping[str, Change | None] = {"added": "new", "changed": "changed", "not evaluated": None}


class PageLinks(Struct, frozen=True):
    """Trusted URLs for links of the page.

    Attributes:
        repository: URL of the repository, such as `https://github.com/octo/shop`; None if it is unknown.
        run: URL of the workflow run; None outside a workflow.
    """

    repository: str | None = None
    run: str | None = None

    def line(self, commit: str | None, folder: str | None, source: SourceMark) -> str | None:
        """Return the URL of a line at a commit; None if it cannot be determined."""
        if commit is None or self.repository is None:
            return None
        path = repository_path(folder, source)
        return None if path is None else line_url(self.repository, commit, path, source.file_line)


NO_LINKS = PageLinks()


class Row(Struct, frozen=True):
    """A case of the page; `case` and `verdict` are None if only the base or other runs have the case.

    `position` is the index of the case in the suite, or the number of the suite's cases if only the base has the case.
    `case_change` describes the change if the case passes on one side and fails on the other. `trials` describes
    repeated trials. `others` has the case in each other run of the page. `task` has a failing case for a coding agent.
    """

    suite: int
    report: Report
    position: int
    change: Change | None
    case_change: CaseChange | None
    case: CaseRecord | None
    verdict: CaseVerdict | None
    base: CaseRecord | None
    base_verdict: CaseVerdict | None
    trials: str | None = None
    others: tuple[CaseInRun | None, ...] = ()
    task: str | None = None

    @property
    def latest_case(self) -> CaseRecord:
        """The case in this run, or else in the base, or else in the first other run that has it."""
        found = (self.case, self.base, *(None if other is None else other.case for other in self.others))
        return next(case for case in found if case is not None)

    def detail(self) -> dict[str, Any]:
        """Return the details of the case in the form of `case_detail`."""
        sides = (self.case, self.verdict, self.base, self.base_verdict)
        return case_detail(*sides, self._remarks(), self.others) | ({"task": self.task} if self.task else {})

    def _remarks(self) -> Iterator[str]:
        if self.trials is not None:
            yield self.trials
        if self.case_change is not None:
            yield from (
                step_text(step, self.case_change.turns, self.case_change.trial) for step in self.case_change.steps
            )


def page_rows(suites: Sequence[Conclusion], other_runs: Sequence[RunColumn] = ()) -> Iterator[Row]:
    """Yield the rows of a page one by one.

    Cases that need attention come first, then other cases in the order of the suites, then cases that only a base has,
    then cases that only `other_runs` have. A page with other runs has one suite.
    """
    if not other_runs:
        yield from _suite_rows(suites)
        return
    cases = OtherCases(other_runs)
    for row in _suite_rows(suites):
        yield replace(row, others=cases.take(row.latest_case.id))
    report = suites[0].report
    after = len(suites[0].record.cases)
    for found in cases.take_rest():
        yield Row(0, report, after, None, None, None, None, None, None, others=found)


def _suite_rows(suites: Sequence[Conclusion]) -> Iterator[Row]:
    rows = [_Rows(at, suite) for at, suite in enumerate(suites)]
    for each in rows:
        yield from each.report_rows(each.report.attention)
    for each in rows:
        report = each.report
        yield from each.report_rows(sorted((*report.passing, *report.informational), key=attrgetter("position")))
    for each in rows:
        yield from each.base_only_rows()


class _Rows:
    """Creates the rows of a suite."""

    def __init__(self, index: int, suite: Conclusion) -> None:
        self.report = suite.report
        self._at, self._record, self._verdicts = index, suite.record, suite.verdict.cases
        self._base = () if suite.base is None else suite.base.cases
        self._before = () if suite.base is None else judge_cases(suite.base)
        # Index in the base by id; cases that were yielded are removed.
        self._places = {case.id: index for index, case in enumerate(self._base)}
        compared = self.report.comparison
        self._case_changes = (
            {}
            if compared is None
            else {
                case.id: case for case in (*compared.regressed, *compared.fixed, *compared.flaky, *compared.undecided)
            }
        )
        self._unpaired = (
            {} if compared is None else {one.id: _WHY[one.why] for one in compared.unpaired if one.why in _WHY}
        )

    def report_rows(self, views: Iterable[CaseView]) -> Iterator[Row]:
        """Yield the rows of cases in the report."""
        for view in views:
            position, case = view.position, self._record.cases[view.position]
            at, case_change = self._places.pop(case.id, None), self._case_changes.get(case.id)
            change: Change | None = None
            if self.report.comparison is not None:
                change = _KINDS[case_change.kind] if case_change is not None else self._unpaired.get(case.id, "same")
            yield Row(
                self._at,
                self.report,
                position,
                change,
                case_change,
                case,
                self._verdicts[position],
                None if at is None else self._base[at],
                None if at is None else self._before[at],
                case_trials_text(view) if case.repeat > 1 else None,
                task=agent_text(self.report, view) if self._verdicts[position].outcome in ("failed", "error") else None,
            )

    def base_only_rows(self) -> Iterator[Row]:
        """Yield the rows of cases that only the base has; call it after `report_rows` has yielded all other cases."""
        if self.report.comparison is None or not self._places:
            return
        # Cases that another shard runs are not listed, but they are not gone.
        own = {case.id for case in self._record.cases}
        report = self.report
        behind = len(report.attention) + len(report.passing) + len(report.informational)
        for case_id, at in self._places.items():
            if case_id not in own:
                base = self._base[at]
                yield Row(self._at, self.report, behind, "gone", None, None, None, base, self._before[at])
