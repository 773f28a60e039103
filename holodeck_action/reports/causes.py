"""Groups failing cases by cause, so that a report has a row for each cause instead of one for each case."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Literal, NamedTuple

from msgspec import Struct

from holodeck_action.decide.error_table import Actor
from holodeck_action.decide.number_texts import decisive_numbers
from holodeck_action.decide.verdict import MetricVerdict, TurnVerdict, explaining_trial
from holodeck_action.reports.report_views import CaseView, ConversationView, Report, TurnView
from holodeck_action.reports.shared_traits import Trait, split_by_trait, trait_shares, traits_of
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line

Standing = Literal["worse", "failing", "before"]
"""Status of a failing case: it passed on the base, was not compared, or already failed on the base."""

_STANDINGS: tuple[Standing, ...] = ("worse", "failing", "before")
_OUTCOMES = ("failed", "error", "skipped")
MAX_UNGROUPED = 3
"""Maximum number of failing cases that a report shows without a table of their causes."""
_MAX_REASON = 2000
"""Maximum number of characters of a reason to compare."""
_MAX_ANSWER = 120

_QUOTED = lazy_pattern(r"\"[^\"]*\"|'[^']*'|`[^`]*`|“[^”]*”")
_NUMBER = lazy_pattern(r"(?<![\w.])-?\d[\d,.]*\d|\b\d\b")
_HEXADECIMAL = lazy_pattern(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4}\b", re.IGNORECASE)
_STATUS = lazy_pattern(r"[1-5]\d\d")


class Cause(Struct, frozen=True):
    """Cases that fail for the same reason.

    Attributes:
        standing: status of all cases compared with the base.
        outcome: outcome of all cases: `failed`, `error` or `skipped`.
        reason: the reason; `…` replaces values that differ between the cases.
        example: the reason of the first case with its values; empty if no value is replaced.
        shared: the property that cases share whose only problem is their scores, such as `the same answer "…"`, with
            which `reason` begins; empty if there is none.
        actor: the party that has to act on an error; None if the cases are not in error.
        cases: the cases in the order of the suite.
    """

    standing: Standing
    outcome: str
    reason: str
    example: str
    shared: str
    actor: Actor | None
    cases: tuple[CaseView, ...]

    @property
    def is_same_error(self) -> bool:
        """Whether several cases have this error, so that a report shows it once for all of them."""
        return self.actor is not None and len(self.cases) > 1


class _Problem(NamedTuple):
    """A problem of a case, and the name of the check that reports it; the name is None if no check reports it."""

    text: str
    check: str | None = None


class _Explanation(Struct, frozen=True):
    """The data that explain one failing case.

    `metrics` are the metrics that failed because of their scores. `traits` is empty unless scores are the only problem
    of the case.
    """

    case: CaseView
    standing: Standing
    outcome: str
    problems: tuple[_Problem, ...]
    metrics: tuple[MetricVerdict, ...]
    actor: Actor | None
    traits: tuple[Trait, ...]


def causes_of(report: Report) -> tuple[Cause, ...]:
    """Group the cases of a report that failed, are in error or were not run.

    Cases have the same cause if the same arguments of the same tool are wrong, the same checks fail, or their errors
    only differ in quoted values and numbers. Cases in which the same metrics miss their thresholds are divided by
    traits that passing cases rarely have (`shared_traits`). Causes of cases that got worse since the base come first,
    causes of cases that already failed on the base last. Among causes of the same standing, failures come before
    errors, and larger groups before smaller ones.
    """
    groups: dict[tuple[object, ...], list[_Explanation]] = defaultdict(list)
    standings = _standing_of(report)
    for case in report.attention:
        if case.outcome in _OUTCOMES:
            found = _explanation_of(case, standings(case.id))
            problems = tuple((mask_values(problem.text), problem.check) for problem in found.problems)
            groups[found.standing, case.outcome, problems, _metric_names(found.metrics)].append(found)
    # All groups are compared with the same passing cases, and most reports have no group that is.
    passing_shares = cache(partial(trait_shares, report.passing))
    causes = [
        Cause(
            part[0].standing,
            part[0].outcome,
            _reason_text(part, shared or _only_answer(part)),
            _example_text(part),
            shared,
            part[0].actor,
            tuple(sorted((found.case for found in part), key=attrgetter("position"))),
        )
        for group in groups.values()
        for shared, part in split_by_trait(group, passing_shares)
    ]
    causes.sort(
        key=lambda cause: (
            _STANDINGS.index(cause.standing),
            _OUTCOMES.index(cause.outcome),
            -len(cause.cases),
            cause.cases[0].position,
        )
    )
    return tuple(causes)


def _standing_of(report: Report) -> Callable[[str], Standing]:
    """Return a function that returns a case's status, compared with the base, by its id."""
    if report.comparison is None:
        return lambda _: "failing"
    worse = {case.id for case in report.comparison.regressed}
    alone = {case.id for case in report.comparison.unpaired} | {case.id for case in report.comparison.flaky}
    return lambda case: "worse" if case in worse else "failing" if case in alone else "before"


def _explanation_of(case: CaseView, status: Standing) -> _Explanation:
    """Return the explanation of a case. If there are problems with tools, they are the whole explanation, since they
    cause the other problems."""
    problems: list[_Problem] = []
    metrics: list[MetricVerdict] = []
    trial = explaining_trial(case.trials)
    verdicts = {turn.index: turn for turn in trial.turns} if trial is not None else {}
    parts: list[tuple[TurnView | ConversationView, TurnVerdict | None]] = [
        (turn, verdicts.get(turn.index)) for turn in case.turns
    ]
    if case.conversation is not None and case.conversation.graded and trial is not None:
        parts.append((case.conversation, trial.conversation))
    faults = [fault for part, _ in parts for fault in part.faults]
    for part, verdict in parts:
        failed = [m for m in verdict.metrics if m.outcome == "failed"] if verdict is not None else []
        numbers = [m for m in failed if m.score is not None and m.threshold is not None and not _ignores_score(m)]
        metrics += numbers
        said = {m.reason for m in numbers}
        checks = {m.reason: m.name for m in failed}
        if part.outcome in _OUTCOMES:
            texts = (text for text in part.problems if text not in said)
            problems += [_Problem(text[:_MAX_REASON].removeprefix("error: "), checks.get(text)) for text in texts]
    if not problems and not metrics:
        problems = [_Problem(case.reason[:_MAX_REASON])]
    tools = [each for each in problems if each.text.startswith(("tool ", "order of tools:"))]
    if tools:
        problems, metrics = tools, []
    actor = faults[0].actor if faults and case.outcome == "error" else None
    traits = () if problems else traits_of(case)
    return _Explanation(case, status, case.outcome, tuple(problems[:3]), tuple(metrics), actor, traits)


def _ignores_score(metric: MetricVerdict) -> bool:
    """Return whether a metric fails for another reason than its score, or has the threshold 1 (all or nothing)."""
    assert metric.score is not None
    assert metric.threshold is not None
    within = metric.score <= metric.threshold if metric.polarity == "minimize" else metric.score >= metric.threshold
    return within or metric.threshold == 1.0


def mask_values(text: str) -> str:
    """Replace quoted values, numbers and identifiers, which may differ between cases with the same cause, by `…`."""
    text = _HEXADECIMAL.sub("…", _QUOTED.sub("…", text))
    # An HTTP status is part of the cause.
    return _NUMBER.sub(lambda number: number[0] if _STATUS.fullmatch(number[0]) else "…", text)


def _metric_names(metrics: Iterable[MetricVerdict]) -> tuple[str, ...]:
    return tuple(sorted({metric.name for metric in metrics}))


def _reason_text(explanations: Sequence[_Explanation], first: str) -> str:
    """Return a reason that applies to all of the cases."""
    texts = [
        _common_text([found.problems[index] for found in explanations])
        for index in range(len(explanations[0].problems))
    ]
    by_name: dict[str, list[MetricVerdict]] = defaultdict(list)
    for metric in (metric for found in explanations for metric in found.metrics):
        by_name[metric.name].append(metric)
    reason = "; ".join(dict.fromkeys([*texts, *map(_scores_text, by_name.values())]))
    return f"{first} ({reason})" if first else reason


def _example_text(explanations: Sequence[_Explanation]) -> str:
    """Return the problems of the first case; an empty string if all cases have the same problems with equal values."""
    first = explanations[0].problems
    if all(found.problems == first for found in explanations):
        return ""
    return "; ".join(dict.fromkeys(problem.text for problem in first))


def _only_answer(explanations: Sequence[_Explanation]) -> str:
    """Return the answer of the only case; empty if there are several cases, or if scores are not its only problem."""
    if len(explanations) > 1 or explanations[0].problems:
        return ""
    turn = explanations[0].case.turn_at_fault
    return "" if turn is None or not turn.response else f'answered "{one_line(turn.response, _MAX_ANSWER)}"'


def _common_text(problems: Sequence[_Problem]) -> str:
    text, check = problems[0]
    if all(problem.text == text for problem in problems):
        return text
    # The name of such a check contains the value that it looks for.
    return f"{check} fails" if check is not None and _QUOTED.search(check) else mask_values(text)


def _scores_text(metrics: Sequence[MetricVerdict]) -> str:
    """Describe the scores of a metric that misses its threshold in several cases."""
    first = metrics[0]
    if len(metrics) == 1:
        return first.reason
    minimize = first.polarity == "minimize"
    scores = [metric.score for metric in metrics if metric.score is not None]
    marks = {metric.threshold for metric in metrics if metric.threshold is not None}
    if len(marks) > 1:
        return f"{first.name} is {'above' if minimize else 'below'} the threshold of each case"
    near, far = (min(scores), max(scores)) if minimize else (max(scores), min(scores))
    shown, needed = decisive_numbers(near, marks.pop(), minimize=minimize, is_met=False)
    other = shown if far == near else f"{far:.2f}"
    ends = dict.fromkeys((shown, other) if minimize else (other, shown))
    return f"{first.name} {' to '.join(ends)}, {'at most' if minimize else 'needs'} {needed}"
