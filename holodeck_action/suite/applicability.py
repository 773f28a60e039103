"""Decides whether a metric applies to a turn and can fail it, and which metrics a model or a library computes."""

from __future__ import annotations

from collections.abc import Iterable

from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, TOOLS, Metric
from holodeck_action.suite.values import Case, MetricSpec, Turn

# Inputs known before the run; the others come with the agent's answer.
_STATIC = (
    "ground_truth",
    "expected_tools",
    "expected_trajectory",
    "ground_truth_chunk_ids",
    "context",
    "simulated_user",
)


def missing_static_inputs(spec: MetricSpec, turn: Turn) -> tuple[str, ...]:
    """Return the names of the metric's inputs that are certain, before the run, to be missing on a turn."""
    required = spec.config.needs
    # Fast path: this runs several times for every metric of every turn.
    if required is GROUND_TRUTH and turn.ground_truth is not None:
        return ()
    if turn.expected_trajectory is not None:
        required -= TOOLS
    missing = [name for name in required if name in _STATIC and not _has_input(turn, name)]
    return tuple(sorted(missing, key=_STATIC.index)) if missing else ()


def _has_input(turn: Turn, name: str) -> bool:
    if name == "context":
        # The text of its files; an image has none.
        return any(file.type != "image" for file in turn.files)
    return getattr(turn, name) is not None


def skip_reason(spec: MetricSpec, turn: Turn) -> str | None:
    """Return why a metric is skipped on a turn, whatever the answer; None if it may be evaluated, or if a missing input
    is an error."""
    if not spec.config.enabled:
        return "disabled in the suite"
    if spec.inherited:
        missing = missing_static_inputs(spec, turn)
        if missing:
            return f"does not apply: the turn has no {' and no '.join(missing)}"
    return None


def reads_tool_calls(turn: Turn) -> bool:
    """Return whether expectations or metrics of a turn, other than code graders, need its tool calls."""
    return turn.expected_tools is not None or any(
        spec.config.reads_tool_calls and skip_reason(spec, turn) is None for spec in turn.metrics
    )


def turn_asserts(turn: Turn) -> bool:
    """Return whether a metric or expectation can fail this turn."""
    return turn.expected_tools is not None or any(
        spec.config.asserts and skip_reason(spec, turn) is None for spec in turn.metrics
    )


def case_asserts(case: Case) -> bool:
    """Return whether a metric or expectation can fail this case; otherwise the case is informational."""
    return any(turn_asserts(turn) for turn in case.turns)


def compares_answers(case: Case) -> bool:
    """Return whether a metric of the case compares the answers of the run and its base."""
    last = case.turns[-1]
    return any(spec.config.OF_PAIR and skip_reason(spec, last) is None for spec in last.metrics)


def judged_metrics(cases: Iterable[Case]) -> dict[tuple[SourceMark, str], Metric]:
    """Return the metrics that a judge grades, members of composites and presets included, by position and label."""
    return {
        (spec.mark, f"{spec.label}: {part}" if part else spec.label): config
        for case in cases
        for turn in case.turns
        for spec in turn.metrics
        for part, config in spec.config.judged_parts()
        if skip_reason(spec, turn) is None
    }


def library_metrics(cases: Iterable[Case]) -> dict[tuple[SourceMark, str], Metric]:
    """Return the metrics that a library computes without a model, members of composites included, by position and
    label."""
    return {
        (spec.mark, spec.label if config is spec.config else f"{spec.label}: {config.name or config.type}"): config
        for case in cases
        for turn in case.turns
        for spec in turn.metrics
        for config in spec.config.library_parts()
        if skip_reason(spec, turn) is None
    }
