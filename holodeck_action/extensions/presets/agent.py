"""The metric `type: agent`, which grades an agent's tool calls and answer together, and reports on the trajectory."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.deepeval.tool_correctness import (
    DeepEvalToolCorrectnessMetric,
    ToolCallComparison,
)
from holodeck_action.extensions.presets.generation import GenerationParts, generation_evaluator
from holodeck_action.extensions.presets.parts import PresetMetric, PresetPart
from holodeck_action.metrics.base import BuildContext
from holodeck_action.metrics.judging.probe_texts import LOOKUP
from holodeck_action.metrics.judging.trajectory_accuracy import TrajectoryAccuracyMetric
from holodeck_action.metrics.metric_sets import Member, PresetEvaluator
from holodeck_action.suite.model.base import Flag, FormatModel, UnitInterval
from holodeck_action.suite.model.metric_base import NO_INPUTS, TOOLS, Metric, Role
from holodeck_action.suite.model.probing import Exam
from holodeck_action.suite.values import ExpectedTool, ToolExpectation

TOOL_CORRECTNESS, TRAJECTORY = "deepeval_tool_correctness", "langchain_agent_trajectory_accuracy"
"""Keys of the results, as in the documents of gllm-evals."""


class ToolPart(ToolCallComparison):
    """`tool_correctness` of `agent`: the same settings as `type: deepeval_tool_correctness`."""

    enabled: Flag = True
    """False: tool calls are not graded."""

    def metric(self) -> DeepEvalToolCorrectnessMetric:
        """Return the metric with these settings."""
        return DeepEvalToolCorrectnessMetric(**self.model_dump(exclude={"enabled"}))


class GenerationPart(FormatModel):
    """`generation` of `agent`: the same settings as `type: generation`."""

    enabled: Flag = True
    """False: the answer is not graded."""
    threshold: UnitInterval | None = None
    """Lowest passing score of the answer; no threshold when absent. Example: `0.7`."""
    metrics: GenerationParts = Field(default_factory=GenerationParts)
    """Settings of its metrics, by name. Example: `{redundancy: {enabled: false}}`."""

    @model_validator(mode="after")
    def _check_something_is_graded(self) -> GenerationPart:
        self.metrics.check_counted()
        return self


class TrajectoryPart(PresetPart):
    """`trajectory_accuracy` of `agent`: reported next to the score, which it does not affect."""

    enabled: Flag = False
    """True: the trajectory is judged."""
    threshold: UnitInterval = 0.5
    """Lowest passing score of the trajectory, used only for its reported verdict."""


class AgentParts(FormatModel):
    """`metrics` of `agent`."""

    tool_correctness: ToolPart = Field(default_factory=ToolPart)
    """The tool calls."""
    generation: GenerationPart = Field(default_factory=GenerationPart)
    """The answer."""
    trajectory_accuracy: TrajectoryPart = Field(default_factory=TrajectoryPart)
    """The trajectory. Score and verdict do not depend on it."""


class AgentMetric(PresetMetric):
    """`type: agent`: tool calls and answer graded together."""

    PLACE = 14
    ONLY_A_TURN = "it compares the tool calls of one turn; use generation and trajectory_accuracy"
    OF_TOOL_CALLS = True

    type: Annotated[Literal["agent"], Role.KIND] = "agent"
    metrics: AgentParts = Field(default_factory=AgentParts)
    """Settings of its metrics, by name. Example: `{generation: {threshold: 0.7}}`."""

    @model_validator(mode="after")
    def _check_something_is_graded(self) -> AgentMetric:
        if not self.metrics.tool_correctness.enabled and not self.metrics.generation.enabled:
            raise PydanticCustomError("metrics", "leaves nothing to grade: enable one of tool_correctness, generation")
        return self

    @property
    def needs(self) -> frozenset[str]:
        """The expected tool calls if they are compared, and the inputs of the metrics that grade the answer."""
        parts = self.metrics
        tools = TOOLS if parts.tool_correctness.enabled else NO_INPUTS
        return tools | parts.generation.metrics.needs if parts.generation.enabled else tools

    @property
    def reads_tool_calls(self) -> bool:
        """Whether an enabled part reads tool calls."""
        return self.metrics.tool_correctness.enabled or self.metrics.trajectory_accuracy.enabled

    @property
    def judged_members(self) -> dict[str, PresetPart]:
        """The enabled parts that need a judge, by name: the parts that grade the answer, and the trajectory."""
        parts = self.metrics
        found = parts.generation.metrics.judged_parts if parts.generation.enabled else {}
        return found | ({"trajectory_accuracy": parts.trajectory_accuracy} if parts.trajectory_accuracy.enabled else {})

    def _built_in_exam(self) -> Exam:
        calls = {"expected_tools": ToolExpectation((ExpectedTool(LOOKUP.name),)), "tool_invocations": (LOOKUP,)}
        # No judge grades the tool calls: they are the same on both sides.
        exam = super()._built_in_exam()
        return Exam({**exam.right, **calls}, {**exam.absurd, **calls})

    def library_parts(self) -> list[Metric]:
        """Return the metric that compares the tool calls; an empty list if it is disabled."""
        tools = self.metrics.tool_correctness
        return [tools.metric()] if tools.enabled else []

    def evaluator(self, building: BuildContext) -> PresetEvaluator:
        """Return an evaluator with the enabled parts."""
        parts, options = self.metrics, self.options(building)
        members = []
        if parts.tool_correctness.enabled:
            members.append(Member(TOOL_CORRECTNESS, parts.tool_correctness.metric().evaluator(building)))
        if parts.generation.enabled:
            answer = {**options, "threshold": parts.generation.threshold}
            generation = generation_evaluator("generation", self, parts.generation.metrics, building, **answer)
            members.append(Member("generation", generation))
        if parts.trajectory_accuracy.enabled:
            part = parts.trajectory_accuracy
            trajectory = TrajectoryAccuracyMetric(threshold=part.threshold).evaluator(building, self.graded_part(part))
            members.append(Member(TRAJECTORY, trajectory, neutral=True))
        return PresetEvaluator(self.name or self.type, members, **options)
