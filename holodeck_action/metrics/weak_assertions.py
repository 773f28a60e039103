"""Assertions that decide nothing: they pass whatever is answered, or fail whatever is answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from holodeck_action.suite.applicability import case_asserts, skip_reason
from holodeck_action.suite.errors import masked, quoted
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.values import Case, MetricSpec, Suite

_SHOWN = 20
"""Cases of one kind that are told one by one; the others are counted."""


def weak_assertions(suite: Suite) -> tuple[str, ...]:
    """Tell, one sentence each with its place: thresholds below which nothing is, cases that cannot fail or not pass."""
    # Where all of them are, bounds on the means of metrics are what can fail.
    silent_cases = [case for case in suite.cases if not case_asserts(case)]
    silent = (_silent(case) for case in silent_cases if len(silent_cases) < len(suite.cases))
    found = [*_thresholds(suite.cases), *_bounded(silent, "cases in which nothing can fail")]
    found += _bounded(_no_numbers(suite.cases), "expected values that are no numbers")
    return tuple(masked(sentence, suite.secrets) for sentence in found)


def _bounded(sentences: Iterator[str], what: str) -> Iterator[str]:
    yield from islice(sentences, _SHOWN)
    left = sum(1 for _ in sentences)
    if left:
        yield f"{left} more {what}"


def _silent(case: Case) -> str:
    reasons = {
        f"{spec.label}: {reason}"
        for turn in case.turns
        for spec in turn.metrics
        if spec.config.asserts and (reason := skip_reason(spec, turn)) is not None
    }
    why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
    return (
        f"{case.mark}: nothing in case {quoted(case.name or case.id)} can fail{why}: it counts neither as passed nor "
        "as failed; give it a ground_truth or expected_tools, or a metric that asserts"
    )


def _thresholds(cases: tuple[Case, ...]) -> Iterator[str]:
    found: dict[str, None] = {}
    for spec in _evaluated_metrics(cases):
        for name, config in _named(spec):
            bound = config.powerless_threshold
            if bound is not None:
                side = "above" if config.polarity == "minimize" else "below"
                problem = f"no score is {side} the threshold {bound:g}, so that it fails nothing"
                found[f"{spec.mark}: {quoted(name)}: {problem}"] = None
    yield from found


def _named(spec: MetricSpec) -> list[tuple[str, Metric]]:
    members = [(f"{spec.label}: {member.name}", member.config) for member in spec.config.members()]
    return members or [(spec.label, spec.config)]


def _no_numbers(cases: tuple[Case, ...]) -> Iterator[str]:
    for turn in chain.from_iterable(case.turns for case in cases):
        expected = turn.ground_truth
        if expected is None:
            continue
        for spec in turn.metrics:
            for name, config in _named(spec):
                problem = config.expected_value_problem(expected)
                if problem is not None and skip_reason(spec, turn) is None:
                    value = f"the expected value {quoted(expected)}"
                    yield f"{turn.mark}: {quoted(name)}: {value} {problem}, so that no answer passes"


def _evaluated_metrics(cases: tuple[Case, ...]) -> Iterable[MetricSpec]:
    """Return the entries that are evaluated somewhere, each once: most cases share those of the suite."""
    found: dict[int, MetricSpec] = {}
    for case in cases:
        for turn in case.turns:
            for spec in turn.metrics:
                if id(spec) not in found and skip_reason(spec, turn) is None:
                    found[id(spec)] = spec
    return found.values()
