"""Whether a metric applies to a turn and can fail it, and what models must grade."""

from __future__ import annotations

from collections.abc import Iterable

from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, TOOLS, Metric
from holodeck_action.suite.values import Case, MetricSpec, Turn

# Inputs that only the agent's answer brings are not known before the run.
_STATIC = ("ground_truth", "expected_tools", "expected_trajectory", "ground_truth_chunk_ids", "context")


def missing_static_inputs(spec: MetricSpec, turn: Turn) -> tuple[str, ...]:
    """Names of the inputs that the suite should give for this turn and does not."""
    required = spec.config.needs
    # This is asked of every metric of every turn, several times, and seldom anything is missing.
    if required is GROUND_TRUTH and turn.texts.expects_answer:
        return ()
    if turn.expected_trajectory is not None:
        required -= TOOLS
    missing = [name for name in required if name in _STATIC and not _gives(turn, name)]
    return tuple(sorted(missing, key=_STATIC.index)) if missing else ()


def _gives(turn: Turn, name: str) -> bool:
    if name == "context":
        # The text of its files; an image has none.
        return any(file.type != "image" for file in turn.files)
    return turn.texts.expects_answer if name == "ground_truth" else getattr(turn, name) is not None


def skip_reason(spec: MetricSpec, turn: Turn) -> str | None:
    """Why a metric is not evaluated on a turn by construction; None when it is evaluated or its lack is an error."""
    if not spec.config.enabled:
        return "disabled in the suite"
    if spec.inherited:
        missing = missing_static_inputs(spec, turn)
        if missing:
            return f"does not apply: the turn has no {' and no '.join(missing)}"
    return None


def reads_tool_calls(turn: Turn) -> bool:
    """Whether what is expected of a turn can only be judged by its tool calls; of code graders nobody knows."""
    return turn.expected_tools is not None or any(
        spec.config.reads_tool_calls and skip_reason(spec, turn) is None for spec in turn.metrics
    )


def turn_asserts(turn: Turn) -> bool:
    """Whether anything can fail this turn."""
    return turn.expected_tools is not None or any(
        spec.config.asserts and skip_reason(spec, turn) is None for spec in turn.metrics
    )


def case_asserts(case: Case) -> bool:
    """Whether anything can fail this case; otherwise it is informational."""
    return any(turn_asserts(turn) for turn in case.turns)


def judged_metrics(cases: Iterable[Case]) -> dict[tuple[SourceMark, str], Metric]:
    """Return what a model must grade in the cases, by place and label; each part of a preset by itself."""
    return {
        (spec.mark, f"{spec.label}: {part}" if part else spec.label): config
        for case in cases
        for turn in case.turns
        for spec in turn.metrics
        for part, config in spec.config.judged_parts()
        if skip_reason(spec, turn) is None
    }


def library_metrics(cases: Iterable[Case]) -> dict[tuple[SourceMark, str], Metric]:
    """Return what a library computes in the cases without a model, by place and label; members of composites too."""
    return {
        (spec.mark, spec.label if config is spec.config else f"{spec.label}: {config.name or config.type}"): config
        for case in cases
        for turn in case.turns
        for spec in turn.metrics
        for config in spec.config.computed_by_library()
        if skip_reason(spec, turn) is None
    }
