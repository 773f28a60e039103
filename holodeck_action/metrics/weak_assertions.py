"""Assertions that decide nothing: they pass whatever is answered, or fail whatever is answered."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from holodeck_action.suite.applicability import (
    asserts,
    case_asserts,
    effective_threshold,
    polarity_of,
    skip_reason,
)
from holodeck_action.suite.errors import masked, quoted
from holodeck_action.suite.metrics import AnyMetric, CodeMetric, CompositeMetric, StandardMetric
from holodeck_action.suite.preset_metrics import PresetMetric, RefusalMetric
from holodeck_action.suite.presets import members_of
from holodeck_action.suite.values import Case, MetricSpec, Suite, Turn

_SHOWN = 20
"""Cases of one kind that are told one by one; the others are counted."""


def weak_assertions(suite: Suite) -> tuple[str, ...]:
    """Tell, one sentence each with its place: thresholds below which nothing is, cases that cannot fail or not pass."""
    # Where all of them are, bounds on the means of metrics are what can fail.
    some = any(map(case_asserts, suite.cases))
    silent = (_silent(case) for case in suite.cases if some and not case_asserts(case))
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
        if asserts(spec.config) and (reason := skip_reason(spec, turn)) is not None
    }
    why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
    return (
        f"{case.mark}: nothing in case {quoted(case.name or case.id)} can fail{why}: it counts neither as passed nor "
        "as failed; give it a ground_truth or expected_tools, or a metric that asserts"
    )


def _thresholds(cases: tuple[Case, ...]) -> Iterator[str]:
    found: dict[str, None] = {}
    for _, spec in _evaluated(cases):
        for name, config in _named(spec):
            bound = _powerless(config)
            if bound is not None:
                side = "above" if polarity_of(config) == "minimize" else "below"
                told = f"no score is {side} the threshold {bound:g}, so that it fails nothing"
                found[f"{spec.mark}: {quoted(name)}: {told}"] = None
    yield from found


def _named(spec: MetricSpec) -> list[tuple[str, AnyMetric]]:
    if isinstance(spec.config, CompositeMetric):
        return [(f"{spec.label}: {member.name}", member.config) for member in members_of(spec.config)]
    return [(spec.label, spec.config)]


def _powerless(config: AnyMetric) -> float | None:
    """Return the threshold of a metric as written where every score reaches it; presets have their parts besides."""
    threshold = effective_threshold(config)
    if threshold is None or isinstance(config, PresetMetric | CompositeMetric | RefusalMetric):
        return None
    if config.threshold is None:
        return None
    if polarity_of(config) == "minimize":
        return config.threshold if threshold >= 1 else None
    least = config.scale.min if isinstance(config, CodeMetric) and config.scale is not None else 0
    return config.threshold if threshold <= least else None


def _no_numbers(cases: tuple[Case, ...]) -> Iterator[str]:
    for turn, spec in _evaluated(cases):
        for name, config in _named(spec):
            if not isinstance(config, StandardMetric) or config.metric != "numeric" or turn.ground_truth is None:
                continue
            # Only suites with the metric pay for the import.
            from holodeck_action.metrics.deterministic import NumericEvaluator

            reader = NumericEvaluator(
                accept_percent=config.accept_percent, accept_thousands_separators=config.accept_thousands_separators
            )
            try:
                reader.parse(turn.ground_truth)
            except ValueError as error:
                told = f"the expected value {quoted(turn.ground_truth)} {error}, so that no answer passes"
                yield f"{turn.mark}: {quoted(name)}: {told}"


def _evaluated(cases: tuple[Case, ...]) -> Iterator[tuple[Turn, MetricSpec]]:
    for case in cases:
        for turn in case.turns:
            for spec in turn.metrics:
                if spec.config.enabled and skip_reason(spec, turn) is None:
                    yield turn, spec
