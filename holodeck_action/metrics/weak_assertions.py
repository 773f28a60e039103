"""Detection of assertions that always pass or always fail, whatever the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from holodeck_action.suite.applicability import case_asserts, skip_reason
from holodeck_action.suite.errors import mask_quotations, quoted
from holodeck_action.suite.model.cases import EVERY
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.values import Case, MetricSpec, Suite

_SHOWN = 20
"""Maximum number of cases of one kind that get their own sentence; further cases are only counted."""


def weak_assertions(suite: Suite) -> tuple[str, ...]:
    """Return sentences, each with file and line, about weak assertions: thresholds that no score fails, cases in which
    nothing can fail, expected values that are not numbers, and cases whose checks only forbid texts.
    """
    # If no case can fail, the suite relies on gates about the means of metrics.
    silent_cases = [case for case in suite.cases if not case_asserts(case)]
    silent = (_no_assertion_notice(case) for case in silent_cases if len(silent_cases) < len(suite.cases))
    found = [*_powerless_threshold_notices(suite.cases), *_first_sentences(silent, "cases in which nothing can fail")]
    found += _first_sentences(_non_numeric_value_notices(suite.cases), "expected values that are not numbers")
    found += _first_sentences(_forbidding_case_notices(suite.cases), "cases that say only what an answer must not be")
    return tuple(mask_quotations(sentence, suite.secrets) for sentence in found)


def _first_sentences(sentences: Iterator[str], subject: str) -> Iterator[str]:
    yield from islice(sentences, _SHOWN)
    left = sum(1 for _ in sentences)
    if left:
        yield f"{left} more {subject}"


def _no_assertion_notice(case: Case) -> str:
    reasons = {
        f"{spec.label}: {reason}"
        for turn in case.turns
        for spec in turn.metrics
        if spec.config.asserts and (reason := skip_reason(spec, turn)) is not None
    }
    why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
    has_answer = any(turn.ground_truth is not None for turn in case.turns)
    wanted = "expected_tools" if has_answer else "a ground_truth or expected_tools"
    return (
        f"{case.mark}: nothing in case {quoted(case.name or case.id)} can fail{why}; it counts neither as "
        f"passed nor as failed; give it {wanted}, or a metric that asserts"
    )


def _forbidding_case_notices(cases: tuple[Case, ...]) -> Iterator[str]:
    for case in cases:
        found = [
            spec.config
            for turn in case.turns
            for spec in turn.metrics
            if spec.config.asserts and skip_reason(spec, turn) is None
        ]
        expects = any(turn.expected_tools is not None for turn in case.turns)
        if found and not expects and all(config.ONLY_FORBIDS for config in found):
            yield (
                f"{case.mark}: the checks of case {quoted(case.name or case.id)} say only what an answer must not be, "
                "so that nearly any answer passes; add one that says what it must be, such as contains"
            )


def _powerless_threshold_notices(cases: tuple[Case, ...]) -> Iterator[str]:
    found: dict[str, None] = {}
    for spec in _evaluated_metrics(cases):
        for name, config in _named_metrics(spec):
            bound = config.powerless_threshold
            if bound is not None:
                side = "above" if config.polarity == "minimize" else "below"
                problem = f"no score is {side} the threshold {bound:g}, so it cannot fail"
                found[f"{spec.mark}: {quoted(name)}: {problem}"] = None
    yield from found


def _named_metrics(spec: MetricSpec) -> list[tuple[str, Metric]]:
    members = [(f"{spec.label}: {member.name}", member.config) for member in spec.config.members()]
    return members or [(spec.label, spec.config)]


def _non_numeric_value_notices(cases: tuple[Case, ...]) -> Iterator[str]:
    for turn in chain.from_iterable(case.turns for case in cases):
        if turn.ground_truth is None:
            continue
        [(matching, texts)] = turn.references.items() if turn.references else [(EVERY, [turn.ground_truth])]
        for spec in turn.metrics:
            for name, config in _named_metrics(spec):
                wrong = [
                    (text, problem) for text in texts if (problem := config.expected_value_problem(text)) is not None
                ]
                if wrong and (matching == EVERY or len(wrong) == len(texts)) and skip_reason(spec, turn) is None:
                    text, problem = wrong[0]
                    value = f"the expected value {quoted(text)}"
                    yield f"{turn.mark}: {quoted(name)}: {value} {problem}, so no answer passes"


def _evaluated_metrics(cases: tuple[Case, ...]) -> Iterable[MetricSpec]:
    """Return the distinct metrics that are evaluated in some case; most cases share the metrics of the suite."""
    found: dict[int, MetricSpec] = {}
    for case in cases:
        for turn in case.turns:
            for spec in turn.metrics:
                if id(spec) not in found and skip_reason(spec, turn) is None:
                    found[id(spec)] = spec
    return found.values()
