"""What preset and composite metrics are made of: their parts, what these need, and who grades them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from holodeck_action.suite.judging import Judges
from holodeck_action.suite.labels import base_name, cut_offs
from holodeck_action.suite.metrics import AnyMetric, CompositeMetric, SingleMetric
from holodeck_action.suite.preset_metrics import (
    AgentMetric,
    CriterionPart,
    GenerationMetric,
    GenerationParts,
    GradedPart,
    LmRetrievalMetric,
    PresetMetric,
    PresetPart,
    PresetParts,
    QueryTransformationMetric,
    RefusalMetric,
    ScoredPart,
    SummarizationMetric,
)

_INPUT_OF = {
    "expected_output": "ground_truth",
    "retrieval_context": "retrieval_context",
    "context": "context",
}
_GROUND_TRUTH = frozenset(("ground_truth",))
_TOOLS = frozenset(("expected_tools",))
_COMPARES = (GenerationMetric, QueryTransformationMetric)


@dataclass(frozen=True, slots=True)
class CompositeMember:
    """One evaluation of a composite; `k` is the cut-off rank of a retrieval metric."""

    name: str
    config: SingleMetric
    k: int | None


def members_of(config: CompositeMetric) -> list[CompositeMember]:
    """Return what a composite evaluates: its enabled metrics, one entry per rank; equal names are numbered."""
    members: list[CompositeMember] = []
    times: Counter[str] = Counter()
    for metric in config.metrics:
        for k in cut_offs(metric) if metric.enabled else ():
            name = base_name(metric, k) if metric.name is None else metric.name
            if k is not None and metric.name is not None:
                name += f" (k={k})"
            times[name] += 1
            members.append(CompositeMember(name if times[name] == 1 else f"{name} ({times[name]})", metric, k))
    return members


def preset_inputs(config: AnyMetric) -> frozenset[str]:
    """Return the inputs that a preset needs besides the answer; those of a composite's members are left out."""
    if isinstance(config, AgentMetric):
        parts = config.metrics
        needed = _TOOLS if parts.tool_correctness.enabled else frozenset[str]()
        return needed | _answer_inputs(parts.generation.metrics) if parts.generation.enabled else needed
    if isinstance(config, GenerationMetric | QueryTransformationMetric | SummarizationMetric):
        return _answer_inputs(config.metrics, compares=isinstance(config, _COMPARES))
    if isinstance(config, LmRetrievalMetric):
        return _GROUND_TRUTH | {"retrieval_context"}
    if isinstance(config, RefusalMetric) and config.expect == "as_expected_output":
        return _GROUND_TRUTH
    return frozenset()


def _answer_inputs(parts: PresetParts, *, compares: bool = True) -> frozenset[str]:
    """Return what the metrics of an answer need: refusals and the built-in metrics compare with an expected output."""
    needed: set[str] = set()
    for part in parts.counted.values():
        shown = part.evaluation_params if isinstance(part, CriterionPart) else None
        if shown is not None:
            needed |= {_INPUT_OF[name] for name in shown if name in _INPUT_OF}
        elif compares:
            needed |= _GROUND_TRUTH
    if isinstance(parts, GenerationParts) and parts.refusal.enabled:
        needed |= _GROUND_TRUTH
    return frozenset(needed)


def graded_parts(config: PresetMetric) -> Iterator[tuple[str, GradedPart]]:
    """Yield who grades a preset: its own model or panel under no name, then the parts' own models under theirs."""
    parts = judged_members(config)
    shared = [part for part in parts.values() if part.model is None]
    if shared:
        scored = any(isinstance(part, ScoredPart) for part in shared)
        yield "", GradedPart(model=config.model, judges=config.judges, scored=scored)
    for name, part in parts.items():
        if part.model is not None:
            yield name, graded_part(config, part)


def judged_members(config: PresetMetric) -> dict[str, PresetPart]:
    """Return the enabled metrics of a preset that a model grades, by name."""
    if isinstance(config, GenerationMetric):
        return _of_generation(config.metrics)
    if isinstance(config, AgentMetric):
        parts = config.metrics
        found = _of_generation(parts.generation.metrics) if parts.generation.enabled else {}
        return found | ({"trajectory_accuracy": parts.trajectory_accuracy} if parts.trajectory_accuracy.enabled else {})
    if isinstance(config, QueryTransformationMetric | SummarizationMetric | LmRetrievalMetric):
        return config.metrics.counted
    return {}


def _of_generation(parts: GenerationParts) -> dict[str, PresetPart]:
    return ({"refusal": parts.refusal} if parts.refusal.enabled else {}) | parts.counted


def graded_part(config: PresetMetric, part: PresetPart) -> GradedPart:
    """Return who grades a part: its own model alone, else the preset's model or panel."""
    scored = isinstance(part, ScoredPart)
    if part.model is not None:
        alone = Judges(models=(), fallback_models=(), min_successful_judges=1)
        return GradedPart(model=part.model, judges=alone, scored=scored)
    return GradedPart(model=config.model, judges=config.judges, scored=scored)
