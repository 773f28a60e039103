"""Which inputs a metric needs, whether it applies to a turn, and whether it can fail it (DESIGN §4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from holodeck_action.suite.dimension_metrics import DimensionMetric, ToxicityMetric
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.metric_base import MetricModel
from holodeck_action.suite.metrics import (
    AZURE_METRICS,
    DETERMINISTIC_METRICS,
    AnyMetric,
    CodeMetric,
    CompositeMetric,
    DeepEvalToolCorrectnessMetric,
    GEvalMetric,
    LengthMetric,
    RagMetric,
    RetrievalMetric,
    StandardMetric,
    ToolCorrectnessMetric,
    TrajectoryMetric,
)
from holodeck_action.suite.preset_metrics import (
    AgentMetric,
    GradedPart,
    PresetMetric,
    RefusalMetric,
    TrajectoryAccuracyMetric,
)
from holodeck_action.suite.presets import graded_parts, members_of, preset_inputs
from holodeck_action.suite.providers import LLMProvider
from holodeck_action.suite.values import Case, MetricSpec, Turn

_NOTHING: frozenset[str] = frozenset()
_GROUND_TRUTH = frozenset(("ground_truth",))
_CONTEXT = frozenset(("retrieval_context",))
_RETRIEVAL = frozenset(("ground_truth_chunk_ids", "retrieved_chunks"))
_TOOLS = frozenset(("expected_tools",))
_TRAJECTORY = frozenset(("expected_trajectory",))

AZURE_TOP = 5
"""Azure AI metrics are graded from 1 to this."""

_STANDARD = {
    **dict.fromkeys(DETERMINISTIC_METRICS, _GROUND_TRUTH),
    **dict.fromkeys(AZURE_METRICS, _NOTHING),
    "similarity": _GROUND_TRUTH,
}
_RAG = {
    "faithfulness": _CONTEXT,
    "answer_relevancy": _NOTHING,
    "contextual_relevancy": _CONTEXT,
    "contextual_precision": _CONTEXT | _GROUND_TRUTH,
    "contextual_recall": _CONTEXT | _GROUND_TRUTH,
}
_GEVAL = {"expected_output": "ground_truth", "retrieval_context": "retrieval_context", "context": "context"}

_ASKING = GEvalMetric | RagMetric | RefusalMetric | TrajectoryAccuracyMetric | DimensionMetric | GradedPart

# Inputs that only the agent's answer brings are not known before the run.
_STATIC = ("ground_truth", "expected_tools", "expected_trajectory", "ground_truth_chunk_ids", "context")


def required_inputs(config: AnyMetric) -> frozenset[str]:
    """Inputs a metric needs besides the answer.

    `expected_tools` are satisfied by `expected_trajectory` too. Sources: format reference §2.2–2.8, evaluators
    reference §3, §4, §6–§8.
    """
    if isinstance(config, CompositeMetric):
        return _NOTHING.union(*(required_inputs(member.config) for member in members_of(config)))
    if isinstance(config, PresetMetric | RefusalMetric):
        return preset_inputs(config)
    if isinstance(config, StandardMetric):
        return _STANDARD[config.metric]
    if isinstance(config, RagMetric):
        return _RAG[config.metric_type]
    if isinstance(config, GEvalMetric):
        return frozenset(_GEVAL[name] for name in config.evaluation_params if name in _GEVAL)
    if isinstance(config, RetrievalMetric):
        return _RETRIEVAL
    if isinstance(config, ToolCorrectnessMetric | DeepEvalToolCorrectnessMetric):
        return _TOOLS
    return _TRAJECTORY if isinstance(config, TrajectoryMetric) else _NOTHING


def missing_static_inputs(spec: MetricSpec, turn: Turn) -> tuple[str, ...]:
    """Names of the inputs that the suite should give for this turn and does not."""
    required = required_inputs(spec.config)
    if turn.expected_trajectory is not None:
        required -= _TOOLS
    return tuple(name for name in _STATIC if name in required and not _gives(turn, name))


def _gives(turn: Turn, name: str) -> bool:
    if name == "context":
        # The text of its files; an image has none.
        return any(file.type != "image" for file in turn.files)
    return getattr(turn, name) is not None


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
        skip_reason(spec, turn) is None and judges_tool_calls(spec.config) for spec in turn.metrics
    )


def judges_tool_calls(config: AnyMetric) -> bool:
    """Whether a metric needs the tool calls of the answer, besides code graders, which may or may not."""
    return any(map(_judges_tool_calls, _with_members(config)))


def _judges_tool_calls(config: AnyMetric) -> bool:
    own = ToolCorrectnessMetric | DeepEvalToolCorrectnessMetric | TrajectoryMetric | TrajectoryAccuracyMetric
    if isinstance(config, AgentMetric):
        return config.metrics.tool_correctness.enabled or config.metrics.trajectory_accuracy.enabled
    return isinstance(config, own)


def _with_members(config: AnyMetric) -> list[AnyMetric]:
    return [member.config for member in members_of(config)] if isinstance(config, CompositeMetric) else [config]


def asserts(config: AnyMetric) -> bool:
    """Whether a metric can fail its case: by kind, or because it has a threshold (format decision table)."""
    if not config.enabled:
        return False
    if isinstance(config, CodeMetric | GEvalMetric | RagMetric | LengthMetric | PresetMetric | RefusalMetric):
        return True
    if isinstance(config, CompositeMetric):
        return config.threshold is not None or any(asserts(member.config) for member in members_of(config))
    if isinstance(config, StandardMetric) and config.metric in ("equality", "numeric"):
        return True
    if isinstance(config, TrajectoryMetric) and config.mode != "lcs_f1":
        return True
    return config.threshold is not None


def turn_asserts(turn: Turn) -> bool:
    """Whether anything can fail this turn."""
    return turn.expected_tools is not None or any(
        asserts(spec.config) and skip_reason(spec, turn) is None for spec in turn.metrics
    )


def case_asserts(case: Case) -> bool:
    """Whether anything can fail this case; otherwise it is informational."""
    return any(turn_asserts(turn) for turn in case.turns)


def effective_threshold(config: AnyMetric) -> float | None:
    """Lowest passing score on the 0..1 scale (code graders: on the grader's own scale); None when there is none."""
    if isinstance(config, RefusalMetric):
        return 1.0
    if isinstance(config, DeepEvalToolCorrectnessMetric) and config.strict_mode:
        return 1.0
    threshold = config.threshold
    if isinstance(config, PresetMetric | CompositeMetric | TrajectoryAccuracyMetric | DimensionMetric):
        return threshold
    if isinstance(config, StandardMetric):
        if threshold is not None:
            return _normalised(threshold, config)
        return 1.0 if config.metric in ("equality", "numeric") else None
    if threshold is not None or isinstance(config, CodeMetric | RetrievalMetric | ToolCorrectnessMetric):
        return threshold
    if isinstance(config, GEvalMetric):
        return 0.5
    return None if isinstance(config, TrajectoryMetric) and config.mode == "lcs_f1" else 1.0


def polarity_of(config: AnyMetric) -> Literal["maximize", "minimize"]:
    """Whether high or low scores of a metric are good."""
    return "minimize" if isinstance(config, ToxicityMetric) else "maximize"


def _normalised(threshold: float, config: StandardMetric) -> float:
    if config.metric in AZURE_METRICS and config.scale == AZURE_TOP:
        # Their own scale, which begins at 1.
        return max(0.0, (threshold - 1) / (AZURE_TOP - 1))
    return threshold / (config.scale or 1)


def judged_metrics(cases: Iterable[Case]) -> dict[tuple[SourceMark, str], MetricModel]:
    """Return what a model must grade in the cases, by place and label; each part of a preset by itself."""
    return {
        (spec.mark, f"{spec.label}: {part}" if part else spec.label): config
        for case in cases
        for turn in case.turns
        for spec in turn.metrics
        if skip_reason(spec, turn) is None
        for part, config in judged_parts(spec.config)
    }


def judged_parts(config: MetricModel) -> Iterator[tuple[str, MetricModel]]:
    """Yield what a model must grade of a metric: itself under no name, or its parts under theirs."""
    if isinstance(config, CompositeMetric):
        for member in members_of(config):
            for part, found in judged_parts(member.config):
                yield f"{member.name}: {part}" if part else member.name, found
    elif isinstance(config, PresetMetric):
        yield from graded_parts(config)
    elif isinstance(config, _ASKING) or (isinstance(config, StandardMetric) and config.metric in AZURE_METRICS):
        yield "", config


def by_deepeval(cases: Iterable[Case]) -> dict[tuple[SourceMark, str], MetricModel]:
    """Return what DeepEval computes in the cases without a model, by place and label; members of composites too."""
    return {
        (spec.mark, spec.label if config is spec.config else f"{spec.label}: {config.name or config.type}"): config
        for case in cases
        for turn in case.turns
        for spec in turn.metrics
        if skip_reason(spec, turn) is None
        for config in computed_by_deepeval(spec.config)
    }


def computed_by_deepeval(config: AnyMetric) -> list[DeepEvalToolCorrectnessMetric]:
    """Return what DeepEval computes of a metric without a model: itself, a part of it, or of its members."""
    parts = (_tool_correctness(each) if isinstance(each, AgentMetric) else each for each in _with_members(config))
    return [each for each in parts if isinstance(each, DeepEvalToolCorrectnessMetric)]


def _tool_correctness(config: AgentMetric) -> DeepEvalToolCorrectnessMetric | None:
    part = config.metrics.tool_correctness
    return DeepEvalToolCorrectnessMetric(**part.model_dump(exclude={"enabled"})) if part.enabled else None


def model_of(config: MetricModel) -> LLMProvider | None:
    """Return a judged metric's own model."""
    return config.model if isinstance(config, _ASKING | StandardMetric | PresetMetric) else None


def needs_judge(config: MetricModel) -> bool:
    """Whether a model must grade: G-Eval, RAG, our own questions, legacy Azure metrics, presets, what holds them."""
    return next(judged_parts(config), None) is not None
