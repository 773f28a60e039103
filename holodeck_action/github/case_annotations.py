"""Annotations of failures in the cases of suites."""

from __future__ import annotations

import math
import posixpath
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappush, heappushpop
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.verdict import MetricVerdict, TrialVerdict, TurnVerdict, explaining_trial
from holodeck_action.github.annotations import MOST_ANNOTATIONS, Annotation, Level, annotation_at, annotation_key
from holodeck_action.reports.causes import mask_values
from holodeck_action.reports.phrases import call_text, is_valid_position, repository_path, run_command
from holodeck_action.reports.report_views import CaseView, Report, TurnView, cases_in_suite_order
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.plain import lines_of, one_line, short_line

_RANKS = {"failed": 0, "error": 1, "skipped": 2, "quarantined": 3}
_LEVELS: Mapping[str, Level] = {"failed": "failure", "error": "warning", "skipped": "warning", "quarantined": "notice"}
_TITLE_WORDS = {"failed": "FAILED", "error": "IN ERROR", "skipped": "NOT RUN", "quarantined": "QUARANTINED"}
_SHOWN_PROBLEMS = 5
_SHOWN_CASES = 5
_CONVERSATION = "conversation"
"""The `place` of a `_Part` that is a whole conversation."""


_Order = tuple[int, float, int]


class Finding(Struct, frozen=True):
    """The content of an annotation.

    `metrics` are the verdicts on metrics that the annotation reports, `other_problems` are further problems. `cases` is
    the number of cases that share the annotation, `case` is the first of these cases, and `titles` are the titles of
    some of them.
    """

    report: Report
    case: CaseView
    turn: TurnView | None
    outcome: str
    source: SourceMark
    path: str
    metrics: tuple[MetricVerdict, ...]
    other_problems: tuple[str, ...]
    key: str
    cases: int = 1
    titles: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems as text, those of metrics last."""
        return (*self.other_problems, *(metric.reason for metric in self.metrics))


def annotate(reports: Sequence[Report]) -> tuple[Annotation, ...]:
    """Return the annotations of the suites, worst first.

    The order is: failed, in error, not run, quarantined; then the distance from the threshold; then the order of the
    suites. A failing metric that is configured on its case is annotated at the metric's line. A failing turn is
    annotated too, unless the annotated metrics are its only problems. Cases of a suite with the same error share one
    annotation, and so do cases that were not run. Quarantined cases that pass, and suites outside of a repository, have
    no annotations.
    """
    # A finding keeps its case in memory: only those with details are kept.
    kept: list[tuple[_Order, Finding]] = []
    rest: list[tuple[_Order, Annotation]] = []
    for number, finding in enumerate(finding for report in reports for finding in SuiteAnnotator(report).findings()):
        # The heap begins with the last finding of the order.
        order = (-_RANKS[finding.outcome], _distance(finding), -number)
        if len(kept) < MOST_ANNOTATIONS:
            heappush(kept, (order, finding))
        else:
            last, worst = heappushpop(kept, (order, finding))
            rest.append((last, annotation_of(worst, detailed=False)))
    shown = [(order, annotation_of(finding, detailed=True)) for order, finding in kept]
    return tuple(made for _, made in sorted([*shown, *rest], key=itemgetter(0), reverse=True))


def passing_keys(reports: Sequence[Report]) -> frozenset[str]:
    """Return the keys of the cases, turns and metrics that pass, to resolve annotations of earlier runs.

    Turns in error, not run or quarantined are not included, as their outcome is unknown.
    """
    return frozenset(key for report in reports for key in SuiteAnnotator(report).passing_keys())


class _Part(Struct, frozen=True):
    """A turn of a case, or its whole conversation.

    `turn` is this turn; for a conversation, the turn that the judge names, or None. `place` is the index of the turn,
    or `conversation`.
    """

    turn: TurnView | None
    place: int | str
    outcome: str
    problems: tuple[str, ...]
    verdict: TurnVerdict


class _SplitProblems(Struct, frozen=True):
    """The problems of a turn or conversation. Each metric in `separate` gets an annotation at its own line; one more
    annotation reports all other problems."""

    separate: tuple[tuple[MetricVerdict, int, SourceMark, str], ...]
    rest: tuple[MetricVerdict, ...]
    other_problems: tuple[str, ...]

    @property
    def is_covered(self) -> bool:
        """Whether the annotations of `separate` cover all problems, so that no other is needed."""
        return bool(self.separate) and not self.rest and not self.other_problems


class SuiteAnnotator:
    """Creates the annotations of a suite. Positions show whether a metric is configured on a case or for the suite.

    A metric of a case is between the first line and the last value of the case, or between this case and the next if
    the last value is unknown.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        starts: dict[str, set[tuple[int, int]]] = {}
        # A metric of several cases is the suite's; older records do not have the end of a case.
        users: dict[SourceMark, str] = {}
        self._shared: set[SourceMark] = set()
        for case in cases_in_suite_order(report):
            starts.setdefault(case.source.file, set()).add((case.source.line, case.source.column))
            marks = {m.source for trial in case.trials for part in trial.parts for m in part.metrics}
            for mark in marks:
                if mark is not None and users.setdefault(mark, case.id) != case.id:
                    self._shared.add(mark)
        self._starts = {file: sorted(places) for file, places in starts.items()}

    def findings(self) -> Iterator[Finding]:
        """Yield the suite's findings in the order of the report; those of errors and cases that did not run last."""
        first: tuple[CaseView, str] | None = None
        skipped = 0
        errors: dict[tuple[str, ...], Finding] = {}
        for case in self._report.attention:
            if case.outcome in ("failed", "error") or (
                case.outcome == "quarantined" and case.judged in ("failed", "error")
            ):
                yield from self._findings_without_errors(case, errors)
            elif case.outcome == "skipped":
                skipped += 1
                if first is None and (path := self._path(case.source)) is not None:
                    first = case, path
        yield from errors.values()
        if first is not None:
            case, path = first
            key = self._key(case, None)
            yield Finding(self._report, case, None, "skipped", case.source, path, (), (case.reason,), key, skipped)

    def _findings_without_errors(self, case: CaseView, errors: dict[tuple[str, ...], Finding]) -> Iterator[Finding]:
        """Yield the findings of a case that are not errors; add the errors to `errors`, by their cause."""
        causes: set[tuple[str, ...]] = set()
        for finding in self._case_findings(case):
            if finding.outcome != "error":
                yield finding
                continue
            cause = tuple(map(mask_values, finding.problems))
            known = errors.setdefault(cause, finding)
            if cause not in causes:
                titles = (*known.titles, case.title)[:_SHOWN_CASES]
                errors[cause] = replace(known, cases=known.cases + (known is not finding), titles=titles)
            causes.add(cause)

    def passing_keys(self) -> Iterator[str]:
        """Yield the keys of the cases, turns and metrics that pass."""
        for case in self._report.passing:
            yield self._key(case, None)
            for at, part in (each for trial in case.trials for each in _places(trial)):
                yield self._key(case, at)
                yield from (self._key(case, at, metric.name, number) for metric, number in _number_metrics(part))
        for case in self._report.attention:
            if case.outcome == "failed":
                yield from self._passing_keys_in(case)

    def _case_findings(self, case: CaseView) -> Iterator[Finding]:
        broken = [part for part in _parts(case) if part.outcome in ("failed", "error")]
        place = self._path(case.source)
        if not broken and place is not None:
            key, outcome = self._key(case, None), _shown_outcome(case, case.judged)
            yield Finding(self._report, case, None, outcome, case.source, place, (), (case.reason,), key)
        for part in broken:
            source = case.source if part.turn is None else part.turn.source
            path = self._path(source)
            if path is None:
                source, path = case.source, place
            yield from self._part_findings(case, part, source, path)

    def _part_findings(self, case: CaseView, part: _Part, source: SourceMark, path: str | None) -> Iterator[Finding]:
        split, turn = self._split_part(case, part), part.turn
        for metric, number, at, metric_path in split.separate:
            key = self._key(case, part.place, metric.name, number)
            yield Finding(self._report, case, turn, _shown_outcome(case, "failed"), at, metric_path, (metric,), (), key)
        if path is None or split.is_covered:
            return
        # Failed metrics have their own annotations; the rest could not be evaluated.
        soft = split.separate and not split.other_problems and all(metric.outcome == "error" for metric in split.rest)
        outcome, key = _shown_outcome(case, "error" if soft else part.outcome), self._key(case, part.place)
        others = split.other_problems if split.other_problems or split.rest else (part.verdict.reason,)
        yield Finding(self._report, case, turn, outcome, source, path, split.rest, others, key)

    def _split_part(self, case: CaseView, part: _Part) -> _SplitProblems:
        numbered = _number_metrics(part.verdict)
        named = [(metric, number) for metric, number in numbered if metric.outcome in ("failed", "error")]
        problems = tuple(metric.reason for metric, _ in named)
        # The view lists metrics last, and none for a turn without an answer.
        if not problems or part.problems[-len(problems) :] != problems:
            return _SplitProblems((), (), part.problems)
        separate: list[tuple[MetricVerdict, int, SourceMark, str]] = []
        rest: list[MetricVerdict] = []
        for metric, number in named:
            at = metric.source
            path = None if at is None or not self._is_listed_on(case, at) else self._path(at)
            if metric.outcome != "failed" or at is None or path is None:
                rest.append(metric)
            else:
                separate.append((metric, number, at, path))
        return _SplitProblems(tuple(separate), tuple(rest), part.problems[: -len(problems)])

    def _passing_keys_in(self, case: CaseView) -> Iterator[str]:
        """Yield the keys of the turns, conversations and metrics that pass in a failed case."""
        for part in _parts(case):
            for metric, number in _number_metrics(part.verdict):
                if metric.outcome == "passed":
                    yield self._key(case, part.place, metric.name, number)
            verdict = part.verdict.outcome
            if verdict == "passed" or (verdict == "failed" and self._split_part(case, part).is_covered):
                yield self._key(case, part.place)

    def _is_listed_on(self, case: CaseView, source: SourceMark) -> bool:
        """Return whether a metric with the position `source` is configured on the case itself."""
        if source.file != case.source.file or not is_valid_position(case.source.line) or source in self._shared:
            return False
        start, place = (case.source.line, case.source.column), (source.line, source.column)
        if case.last is not None and place > (case.last.line, case.last.column):
            return False
        starts = self._starts[case.source.file]
        following = bisect_right(starts, start)
        return start <= place and (following == len(starts) or place < starts[following])

    def _path(self, source: SourceMark) -> str | None:
        return repository_path(self._report.provenance.folder, source)

    def _key(self, case: CaseView, turn: int | str | None, metric: str = "", number: int = 0) -> str:
        file = posixpath.join(self._report.provenance.folder or "", self._report.file)
        return annotation_key(file, case.id, turn, metric, number)


def _shown_outcome(case: CaseView, outcome: str) -> str:
    return "quarantined" if case.outcome == "quarantined" else outcome


def _parts(case: CaseView) -> Iterator[_Part]:
    """Yield the turns and the graded conversation of the trial that explains the case's outcome."""
    trial = explaining_trial(case.trials)
    if trial is None:
        return
    verdicts = dict(_places(trial))
    for turn in case.turns:
        if turn.index in verdicts:
            yield _Part(turn, turn.index, turn.outcome, turn.problems, verdicts[turn.index])
    whole = case.conversation
    if whole is not None and whole.graded and _CONVERSATION in verdicts:
        named = next((turn for turn in case.turns if turn.index == whole.named_turn), None)
        yield _Part(named, _CONVERSATION, whole.outcome, whole.problems, verdicts[_CONVERSATION])


def _places(trial: TrialVerdict) -> Iterator[tuple[int | str, TurnVerdict]]:
    """Yield (index, verdict) of each turn of a trial, then (`conversation`, verdict) if it was graded as a whole."""
    yield from ((turn.index, turn) for turn in trial.turns)
    if trial.conversation is not None:
        yield _CONVERSATION, trial.conversation


def _number_metrics(turn: TurnVerdict) -> Iterator[tuple[MetricVerdict, int]]:
    """Yield each metric with the number of earlier metrics of the same name."""
    seen: dict[str, int] = {}
    for metric in turn.metrics:
        yield metric, seen.setdefault(metric.name, 0)
        seen[metric.name] += 1


def _distance(finding: Finding) -> float:
    """Return the largest distance of a failed metric from its threshold; 1.0 for failures without a number."""
    known = [_shortfall(metric) for metric in finding.metrics if metric.outcome == "failed"]
    return max((*known, 1.0) if finding.other_problems or not known else known)


def _shortfall(metric: MetricVerdict) -> float:
    if metric.score is None or metric.threshold is None:
        return 1.0
    below = metric.threshold - metric.score
    return max(0.0, -below if metric.polarity == "minimize" else below) if math.isfinite(below) else 1.0


def annotation_of(finding: Finding, *, detailed: bool) -> Annotation:
    """Return the annotation of a finding, with input, answer and tool calls if `detailed`."""
    return annotation_at(
        finding.source,
        finding.path,
        _LEVELS[finding.outcome],
        _title(finding),
        "\n".join(_message(finding)),
        finding.key,
        "\n".join(_details(finding)) if detailed else "",
    )


def _title(finding: Finding) -> str:
    word = _TITLE_WORDS[finding.outcome]
    if finding.outcome == "skipped":
        cases = "1 case" if finding.cases == 1 else f"{finding.cases:,} cases"
        return f"{word} {cases} of {one_line(finding.report.suite, 120)}"
    if finding.cases > 1:
        more = f" (+{len(finding.problems) - 1} more)" if len(finding.problems) > 1 else ""
        return f"{word} {finding.cases:,} cases · {short_line(finding.problems[0])}{more}"
    turn = f" turn {finding.turn.index}" if finding.turn is not None and len(finding.case.turns) > 1 else ""
    failed = sorted((metric for metric in finding.metrics if metric.outcome == "failed"), key=_shortfall, reverse=True)
    metrics = (*failed, *(metric for metric in finding.metrics if metric.outcome != "failed"))
    causes = [*finding.other_problems[:1], *(metric.reason for metric in metrics)]
    more = f" (+{len(causes) - 1} more)" if len(causes) > 1 else ""
    return f"{word} {one_line(finding.case.title, 100)}{turn} · {short_line(causes[0])}{more}"


def _message(finding: Finding) -> Iterator[str]:
    yield from filter(None, [one_line(finding.source.in_sheet, 200)])
    problems = finding.problems
    yield from (one_line(problem, 400) for problem in problems[:_SHOWN_PROBLEMS])
    if len(problems) > _SHOWN_PROBLEMS:
        yield f"… and {len(problems) - _SHOWN_PROBLEMS} more"
    if finding.outcome == "skipped":
        return
    if finding.cases > 1:
        more = finding.cases - len(finding.titles)
        titles = ", ".join(one_line(title, 100) for title in finding.titles)
        yield f"cases: {titles}{f' and {more:,} more' if more else ''}"
        yield from _suggestions(finding)
        return
    if finding.outcome == "quarantined":
        yield one_line(finding.case.reason, 200)
    if finding.case.repeats:
        yield f"trials: {one_line(finding.case.repeats)}{', flaky' if finding.case.flaky else ''}"
    turn = finding.turn
    if turn is not None and turn.response is not None:
        yield _label_text("answer", turn.response, 400)
    if turn is not None and turn.ground_truth is not None:
        yield _label_text("expected", turn.ground_truth, 200)
    yield from _suggestions(finding)


def _label_text(label: str, text: str, limit: int) -> str:
    shown = lines_of(text, limit).strip("\n") or "(empty)"
    return f"{label}: {shown}" if "\n" not in shown else f"{label}:\n{shown}"


def _suggestions(finding: Finding) -> Iterator[str]:
    command = run_command(finding.report, finding.case.id)
    if command is not None:
        yield f"run it alone: {command}"
    for metric in finding.metrics[:_SHOWN_PROBLEMS]:
        path = None if metric.source is None else repository_path(finding.report.provenance.folder, metric.source)
        if metric.outcome == "failed" and metric.threshold is not None and path is not None:
            assert metric.source is not None
            where = one_line(f"{path}{metric.source.short.removeprefix(metric.source.file)}", 400)
            yield f"the threshold {metric.threshold:.4g} of {one_line(metric.name, 60)} is set at {where}"


def _details(finding: Finding) -> Iterator[str]:
    turn = finding.turn
    if turn is None or finding.cases > 1:
        return
    yield _label_text("input", turn.input, 3000)
    if turn.response is not None:
        yield _label_text("answer", turn.response, 6000)
    if turn.ground_truth is not None:
        yield _label_text("expected", turn.ground_truth, 2000)
    for number, call in enumerate(turn.tool_calls[:20], start=1):
        yield f"tool call {number}: {one_line(call_text(call, 600), 600)}"
        if call.error is not None:
            yield f"  error: {one_line(call.error, 300)}"
        elif call.result is not None:
            yield f"  result: {one_line(call.result, 300)}"
    if len(turn.tool_calls) > 20:
        yield f"… and {len(turn.tool_calls) - 20} more tool calls"
