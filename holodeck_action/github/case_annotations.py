"""What is wrong in the cases of suites, as annotations."""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappush, heappushpop
from operator import itemgetter

from msgspec import Struct

from holodeck_action.decide.verdict import MetricVerdict, TurnVerdict, explaining_trial
from holodeck_action.github.annotations import (
    DETAILS_LIMIT,
    MESSAGE_LIMIT,
    MOST,
    TITLE_LIMIT,
    Annotation,
    Level,
    fitting,
)
from holodeck_action.reports.phrases import call_text, repository_path, run_alone, usable
from holodeck_action.reports.report_views import CaseView, Report, TurnView, in_suite_order
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.plain import lines_of, one_line, short_line

_RANKS = {"failed": 0, "error": 1, "skipped": 2, "quarantined": 3}
_LEVELS: Mapping[str, Level] = {"failed": "failure", "error": "warning", "skipped": "warning", "quarantined": "notice"}
_WORDS = {"failed": "FAILED", "error": "IN ERROR", "skipped": "NOT RUN", "quarantined": "QUARANTINED"}
_SHOWN_PROBLEMS = 5


_Order = tuple[int, float, int]


class _Finding(Struct, frozen=True):
    """What an annotation is made of; `metrics` are those with a verdict that it is about, `others` further problems."""

    report: Report
    case: CaseView
    turn: TurnView | None
    outcome: str
    source: SourceMark
    path: str
    metrics: tuple[MetricVerdict, ...]
    others: tuple[str, ...]
    key: str
    cases: int = 1


def annotate(reports: Sequence[Report]) -> tuple[Annotation, ...]:
    """Return what is wrong in the suites: worst first.

    Failed comes before in error, not run and quarantined; of the same outcome what is furthest from its threshold, then
    the order of the suites. A turn has one annotation, and one for each failing metric that its case itself lists.
    Cases that were not run have one per suite; quarantined cases that hold have none. Suites outside of a repository
    have no annotations.
    """
    # What has details holds its case: no more of them are kept than are shown.
    kept: list[tuple[_Order, _Finding]] = []
    rest: list[tuple[_Order, Annotation]] = []
    for number, finding in enumerate(finding for report in reports for finding in _Suite(report).findings()):
        # The last one in the order is the first of the heap.
        order = (-_RANKS[finding.outcome], _distance(finding), -number)
        if len(kept) < MOST:
            heappush(kept, (order, finding))
        else:
            last, worst = heappushpop(kept, (order, finding))
            rest.append((last, _annotation(worst, detailed=False)))
    shown = [(order, _annotation(finding, detailed=True)) for order, finding in kept]
    return tuple(made for _, made in sorted([*shown, *rest], key=itemgetter(0), reverse=True))


def passing_keys(reports: Sequence[Report]) -> frozenset[str]:
    """Return the keys of the turns and metrics that hold, for what was annotated in an earlier run.

    A turn that is in error, not run or quarantined is not among them: nobody knows that it holds.
    """
    return frozenset(key for report in reports for key in _Suite(report).passing_keys())


class _Parts(Struct, frozen=True):
    """A turn's problems: metrics that have an annotation each, with their place, and what shares the turn's one."""

    apart: tuple[tuple[MetricVerdict, int, SourceMark, str], ...]
    rest: tuple[MetricVerdict, ...]
    others: tuple[str, ...]

    @property
    def nothing_left(self) -> bool:
        """Whether the turn needs no annotation of its own."""
        return bool(self.apart) and not self.rest and not self.others


class _Suite:
    """A suite's report, and which of its metrics are listed on the case itself.

    Those are between the start of the case and its last value, or else the next case of the file.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        starts: dict[str, set[tuple[int, int]]] = {}
        # What other cases are graded by, too, is the suite's: older records do not tell where a case ends.
        users: dict[SourceMark, str] = {}
        self._shared: set[SourceMark] = set()
        for case in in_suite_order(report):
            starts.setdefault(case.source.file, set()).add((case.source.line, case.source.column))
            marks = {m.source for trial in case.trials for turn in trial.turns for m in turn.metrics}
            for mark in marks:
                if mark is not None and users.setdefault(mark, case.id) != case.id:
                    self._shared.add(mark)
        self._starts = {file: sorted(places) for file, places in starts.items()}

    def findings(self) -> Iterator[_Finding]:
        first: tuple[CaseView, str] | None = None
        skipped = 0
        for case in self._report.attention:
            if case.outcome in ("failed", "error") or (
                case.outcome == "quarantined" and case.judged in ("failed", "error")
            ):
                yield from self._of_case(case)
            elif case.outcome == "skipped":
                skipped += 1
                if first is None and (path := self._path(case.source)) is not None:
                    first = case, path
        if first is not None:
            case, path = first
            key = self._key(case, None)
            yield _Finding(self._report, case, None, "skipped", case.source, path, (), (case.reason,), key, skipped)

    def passing_keys(self) -> Iterator[str]:
        for case in self._report.passing:
            yield self._key(case, None)
            for turn in (turn for trial in case.trials for turn in trial.turns):
                yield self._key(case, turn.index)
                yield from (self._key(case, turn.index, metric.name, number) for metric, number in _numbered(turn))
        for case in self._report.attention:
            if case.outcome == "failed":
                yield from self._holding(case)

    def _of_case(self, case: CaseView) -> Iterator[_Finding]:
        verdicts = {turn.index: turn for turn in _explaining_turns(case)}
        broken = [turn for turn in case.turns if turn.outcome in ("failed", "error") and turn.index in verdicts]
        place = self._path(case.source)
        if not broken and place is not None:
            key, outcome = self._key(case, None), _outcome(case, case.judged)
            yield _Finding(self._report, case, None, outcome, case.source, place, (), (case.reason,), key)
        for turn in broken:
            source, path = turn.source, self._path(turn.source)
            if path is None:
                source, path = case.source, place
            yield from self._of_turn(case, turn, verdicts[turn.index], source, path)

    def _of_turn(
        self, case: CaseView, turn: TurnView, verdict: TurnVerdict, source: SourceMark, path: str | None
    ) -> Iterator[_Finding]:
        parts = self._parts(case, turn, verdict)
        for metric, number, at, metric_path in parts.apart:
            key = self._key(case, turn.index, metric.name, number)
            yield _Finding(self._report, case, turn, _outcome(case, "failed"), at, metric_path, (metric,), (), key)
        if path is None or parts.nothing_left:
            return
        # What failed has its own annotation already: what is left could only not be evaluated.
        soft = parts.apart and not parts.others and all(metric.outcome == "error" for metric in parts.rest)
        outcome, key = _outcome(case, "error" if soft else turn.outcome), self._key(case, turn.index)
        others = parts.others if parts.others or parts.rest else (verdict.reason,)
        yield _Finding(self._report, case, turn, outcome, source, path, parts.rest, others, key)

    def _parts(self, case: CaseView, turn: TurnView, verdict: TurnVerdict) -> _Parts:
        named = [(metric, number) for metric, number in _numbered(verdict) if metric.outcome in ("failed", "error")]
        problems = tuple(metric.reason for metric, _ in named)
        # The view lists metrics last, and none of a turn that was not answered.
        if not problems or turn.problems[-len(problems) :] != problems:
            return _Parts((), (), turn.problems)
        apart: list[tuple[MetricVerdict, int, SourceMark, str]] = []
        rest: list[MetricVerdict] = []
        for metric, number in named:
            at = metric.source
            path = None if at is None or not self._is_listed_on(case, at) else self._path(at)
            if metric.outcome != "failed" or at is None or path is None:
                rest.append(metric)
            else:
                apart.append((metric, number, at, path))
        return _Parts(tuple(apart), tuple(rest), turn.problems[: -len(problems)])

    def _holding(self, case: CaseView) -> Iterator[str]:
        """Yield the keys of what holds in a case that failed."""
        views = {turn.index: turn for turn in case.turns}
        for turn in _explaining_turns(case):
            for metric, number in _numbered(turn):
                if metric.outcome == "passed":
                    yield self._key(case, turn.index, metric.name, number)
            view = views.get(turn.index)
            split = turn.outcome == "failed" and view is not None and self._parts(case, view, turn).nothing_left
            if turn.outcome == "passed" or split:
                yield self._key(case, turn.index)

    def _is_listed_on(self, case: CaseView, source: SourceMark) -> bool:
        """Tell whether a metric at `source` is listed on the case itself."""
        if source.file != case.source.file or not usable(case.source.line) or source in self._shared:
            return False
        start, place = (case.source.line, case.source.column), (source.line, source.column)
        if case.last is not None and place > (case.last.line, case.last.column):
            return False
        starts = self._starts[case.source.file]
        following = bisect_right(starts, start)
        return start <= place and (following == len(starts) or place < starts[following])

    def _path(self, source: SourceMark) -> str | None:
        return repository_path(self._report.provenance.folder, source)

    def _key(self, case: CaseView, turn: int | None, metric: str = "", number: int = 0) -> str:
        file = posixpath.join(self._report.provenance.folder or "", self._report.file)
        named = json.dumps([file, case.id, turn, metric, number])
        return hashlib.sha256(named.encode()).hexdigest()[:16]


def _outcome(case: CaseView, outcome: str) -> str:
    return "quarantined" if case.outcome == "quarantined" else outcome


def _explaining_turns(case: CaseView) -> tuple[TurnVerdict, ...]:
    """Return the turns of the trial that explains the outcome: the one whose turns the view shows."""
    trial = explaining_trial(case.trials)
    return () if trial is None else trial.turns


def _numbered(turn: TurnVerdict) -> Iterator[tuple[MetricVerdict, int]]:
    """Yield the metrics with how many of the same name came before."""
    seen: dict[str, int] = {}
    for metric in turn.metrics:
        yield metric, seen.setdefault(metric.name, 0)
        seen[metric.name] += 1


def _distance(finding: _Finding) -> float:
    """Return how far the worst metric is from its threshold; what fails without a number fails by the whole scale."""
    known = [_below(metric) for metric in finding.metrics if metric.outcome == "failed"]
    return max((*known, 1.0) if finding.others or not known else known)


def _below(metric: MetricVerdict) -> float:
    if metric.score is None or metric.threshold is None:
        return 1.0
    below = metric.threshold - metric.score
    return max(0.0, -below if metric.polarity == "minimize" else below) if math.isfinite(below) else 1.0


def _annotation(finding: _Finding, *, detailed: bool) -> Annotation:
    return Annotation(
        path=finding.path,
        line=finding.source.line,
        column=finding.source.column if usable(finding.source.column) else None,
        level=_LEVELS[finding.outcome],
        title=fitting(_title(finding), TITLE_LIMIT, TITLE_LIMIT),
        message=fitting("\n".join(_message(finding)), MESSAGE_LIMIT, 4 * MESSAGE_LIMIT),
        details=fitting("\n".join(_details(finding)), DETAILS_LIMIT, DETAILS_LIMIT) if detailed else "",
        key=finding.key,
    )


def _title(finding: _Finding) -> str:
    word = _WORDS[finding.outcome]
    if finding.outcome == "skipped":
        cases = "1 case" if finding.cases == 1 else f"{finding.cases:,} cases"
        return f"{word} {cases} of {one_line(finding.report.suite, 120)}"
    turn = f" turn {finding.turn.index}" if finding.turn is not None and len(finding.case.turns) > 1 else ""
    failed = sorted((metric for metric in finding.metrics if metric.outcome == "failed"), key=_below, reverse=True)
    metrics = (*failed, *(metric for metric in finding.metrics if metric.outcome != "failed"))
    causes = [*finding.others[:1], *(metric.reason for metric in metrics)]
    more = f" (+{len(causes) - 1} more)" if len(causes) > 1 else ""
    return f"{word} {one_line(finding.case.title, 100)}{turn} · {short_line(causes[0])}{more}"


def _message(finding: _Finding) -> Iterator[str]:
    problems = [*finding.others, *(metric.reason for metric in finding.metrics)]
    yield from (one_line(problem, 400) for problem in problems[:_SHOWN_PROBLEMS])
    if len(problems) > _SHOWN_PROBLEMS:
        yield f"… and {len(problems) - _SHOWN_PROBLEMS} more"
    if finding.outcome == "skipped":
        return
    if finding.outcome == "quarantined":
        yield one_line(finding.case.reason, 200)
    if finding.case.repeats:
        yield f"trials: {one_line(finding.case.repeats)}{', flaky' if finding.case.flaky else ''}"
    turn = finding.turn
    if turn is not None and turn.response is not None:
        yield _labelled("answer", turn.response, 400)
    if turn is not None and turn.ground_truth is not None:
        yield _labelled("expected", turn.ground_truth, 200)
    yield from _suggestions(finding)


def _labelled(label: str, text: str, limit: int) -> str:
    shown = lines_of(text, limit).strip("\n") or "(empty)"
    return f"{label}: {shown}" if "\n" not in shown else f"{label}:\n{shown}"


def _suggestions(finding: _Finding) -> Iterator[str]:
    command = run_alone(finding.report, finding.case.id)
    if command is not None:
        yield f"run it alone: {command}"
    for metric in finding.metrics[:_SHOWN_PROBLEMS]:
        path = None if metric.source is None else repository_path(finding.report.provenance.folder, metric.source)
        if metric.outcome == "failed" and metric.threshold is not None and path is not None:
            assert metric.source is not None
            where = f"{one_line(path, 200)}:{metric.source.line}"
            yield f"the threshold {metric.threshold:.4g} of {one_line(metric.name, 60)} is set at {where}"


def _details(finding: _Finding) -> Iterator[str]:
    turn = finding.turn
    if turn is None:
        return
    yield _labelled("input", turn.input, 3000)
    if turn.response is not None:
        yield _labelled("answer", turn.response, 6000)
    if turn.ground_truth is not None:
        yield _labelled("expected", turn.ground_truth, 2000)
    for number, call in enumerate(turn.tool_calls[:20], start=1):
        yield f"tool call {number}: {one_line(call_text(call, 600), 600)}"
        if call.error is not None:
            yield f"  error: {one_line(call.error, 300)}"
        elif call.result is not None:
            yield f"  result: {one_line(call.result, 300)}"
    if len(turn.tool_calls) > 20:
        yield f"… and {len(turn.tool_calls) - 20} more tool calls"
