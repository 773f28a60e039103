"""Failing cases by cause: what a change broke, instead of as many rows as there are cases."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Literal

from msgspec import Struct

from holodeck_action.decide.compare.comparison import changed_ids
from holodeck_action.decide.faults import Actor
from holodeck_action.decide.figures import decisive
from holodeck_action.decide.verdict import MetricVerdict, explaining_trial
from holodeck_action.reports.report_views import CaseView, CaseViews, Report

Standing = Literal["worse", "failing", "before"]
"""Whether a case passed on the base, or nothing is known of it there, or it failed there, too."""

_STANDINGS: tuple[Standing, ...] = ("worse", "failing", "before")
_OUTCOMES = ("failed", "error", "skipped")
_GAP = 0.15
"""Scores below their marks by amounts that are further apart are two causes."""
_LONGEST = 2000
"""Characters of a reason that are looked at."""

_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|`[^`]*`|“[^”]*”")
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,.]*\d|\b\d\b")
_HEXADECIMAL = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4}\b", re.IGNORECASE)
_STATUS = re.compile(r"[1-5]\d\d")


class Cause(Struct, frozen=True):
    """Cases that fail for one reason.

    Attributes:
        standing: of all of them.
        outcome: `failed`, `error` or `skipped`, of all of them.
        reason: in words; where the cases differ in a value, `…` stands for it.
        actor: who has to act on an error; None where nothing was in error.
        cases: in the order of the suite.
    """

    standing: Standing
    outcome: str
    reason: str
    actor: Actor | None
    cases: CaseViews


class _Found(Struct, frozen=True):
    """What explains a case, without the case."""

    position: int
    standing: Standing
    outcome: str
    texts: tuple[str, ...]
    metrics: tuple[MetricVerdict, ...]
    actor: Actor | None

    @property
    def distance(self) -> float:
        """How far the worst metric is from its mark."""
        return max((abs((m.score or 0.0) - (m.threshold or 0.0)) for m in self.metrics), default=0.0)


def causes_of(report: Report) -> tuple[Cause, ...]:
    """Group the cases of a report that failed, are in error or were not run.

    Cases are one cause if the same metrics are below their marks by about as much, if the same arguments of the same
    tool are wrong, or if errors are the same but for quoted values and numbers. What got worse since the base comes
    first, what failed there, too, last; then failures come before errors, and the larger group before the smaller one.
    """
    groups: dict[tuple[object, ...], list[_Found]] = defaultdict(list)
    standings = _standings(report)
    for case in report.attention:
        if case.outcome in _OUTCOMES:
            found = _found(case, standings(case.id))
            key = (found.standing, case.outcome, tuple(map(_pattern, found.texts)), _names(found.metrics))
            groups[key].append(found)
    view = _view(report)
    causes = [
        Cause(part[0].standing, part[0].outcome, _reason(part), _actor(part), _cases(part, view))
        for group in groups.values()
        for part in _by_distance(group)
    ]
    causes.sort(
        key=lambda cause: (
            _STANDINGS.index(cause.standing),
            _OUTCOMES.index(cause.outcome),
            -len(cause.cases),
            cause.cases.positions[0],
        )
    )
    return tuple(causes)


def _view(report: Report) -> Callable[[int], CaseView]:
    """Return what gives a case that needs attention by its position."""
    if isinstance(report.attention, CaseViews):
        return report.attention.view
    return {case.position: case for case in report.attention}.__getitem__


def _standings(report: Report) -> Callable[[str], Standing]:
    """Return what tells the standing of a case by its id."""
    if report.comparison is None:
        return lambda _: "failing"
    worse = set(changed_ids(report.comparison.regressed))
    alone = {case.id for case in report.comparison.unpaired}
    return lambda case: "worse" if case in worse else "failing" if case in alone else "before"


def _found(case: CaseView, standing: Standing) -> _Found:
    """Return what explains a case: tools and errors before scores, which they explain."""
    texts: list[str] = []
    metrics: list[MetricVerdict] = []
    trial = explaining_trial(case.trials)
    verdicts = {turn.index: turn for turn in trial.turns} if trial is not None else {}
    faults = [fault for turn in case.turns for fault in turn.faults]
    for turn in case.turns:
        verdict = verdicts.get(turn.index)
        failed = [m for m in verdict.metrics if m.outcome == "failed"] if verdict is not None else []
        numbers = [m for m in failed if m.score is not None and m.threshold is not None and not _own(m)]
        metrics += numbers
        said = {m.reason for m in numbers}
        if turn.outcome in _OUTCOMES:
            texts += [problem[:_LONGEST].removeprefix("error: ") for problem in turn.problems if problem not in said]
    if not texts and not metrics:
        texts = [case.reason[:_LONGEST]]
    tools = [text for text in texts if text.startswith(("tool ", "order of tools:"))]
    if tools:
        texts, metrics = tools, []
    actor = faults[0].actor if faults and case.outcome == "error" else None
    return _Found(case.position, standing, case.outcome, tuple(texts[:3]), tuple(metrics), actor)


def _own(metric: MetricVerdict) -> bool:
    """Tell whether a verdict does not follow from score and threshold, or says nothing by its number."""
    assert metric.score is not None
    assert metric.threshold is not None
    within = metric.score <= metric.threshold if metric.polarity == "minimize" else metric.score >= metric.threshold
    return within or metric.threshold == 1.0


def _pattern(text: str) -> str:
    """Return a text with `…` for what differs between cases of one cause: quoted values, numbers, identifiers."""
    text = _HEXADECIMAL.sub("…", _QUOTED.sub("…", text))
    # The status of an answer says what went wrong.
    return _NUMBER.sub(lambda number: number[0] if _STATUS.fullmatch(number[0]) else "…", text)


def _names(metrics: Iterable[MetricVerdict]) -> tuple[str, ...]:
    return tuple(sorted({metric.name for metric in metrics}))


def _by_distance(group: list[_Found]) -> Iterator[list[_Found]]:
    """Split a group where the distances from the marks have a gap."""
    if not group[0].metrics:
        yield group
        return
    ordered = sorted(group, key=lambda found: -found.distance)
    part = [ordered[0]]
    for found in ordered[1:]:
        if part[-1].distance - found.distance > _GAP:
            yield part
            part = []
        part.append(found)
    yield part


def _cases(part: Iterable[_Found], view: Callable[[int], CaseView]) -> CaseViews:
    return CaseViews(sorted(found.position for found in part), view)


def _actor(part: Sequence[_Found]) -> Actor | None:
    return part[0].actor


def _reason(part: Sequence[_Found]) -> str:
    """Say the cause of several cases in words."""
    texts = [_common([found.texts[index] for found in part]) for index in range(len(part[0].texts))]
    by_name: dict[str, list[MetricVerdict]] = defaultdict(list)
    for metric in (metric for found in part for metric in found.metrics):
        by_name[metric.name].append(metric)
    return "; ".join(dict.fromkeys([*texts, *map(_about, by_name.values())]))


def _common(texts: Sequence[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else _pattern(texts[0])


def _about(metrics: Sequence[MetricVerdict]) -> str:
    """Say how far a metric is from its mark in several cases."""
    first = metrics[0]
    if len(metrics) == 1:
        return first.reason
    name = first.title or first.name
    scores = [metric.score for metric in metrics if metric.score is not None]
    marks = {metric.threshold for metric in metrics if metric.threshold is not None}
    minimize = first.polarity == "minimize"
    if len(marks) > 1:
        return f"{name} about {median(scores):.2f}, {'above' if minimize else 'below'} what each case needs"
    shown, needed = decisive(median(scores), marks.pop(), minimize=minimize, holds=False)
    about = "" if len(set(scores)) == 1 else "about "
    return f"{name} {about}{shown}, {'at most' if minimize else 'needs'} {needed}"
