"""The metrics of presets: their settings, criteria and judges.

A preset is a named set of metrics that are computed together. In `metrics`, each of them can be replaced or disabled,
or given its own threshold and model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from msgspec import Struct
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.deepeval.metrics_geval import ANSWER_IS_SHOWN, INPUT_OF_PARAM, check_params
from holodeck_action.metrics.base import BaseEvaluator, BuildContext
from holodeck_action.metrics.judging.probe_texts import ANSWER, FACT, OFF_TOPIC, question_exam
from holodeck_action.metrics.metric_sets import Member, either
from holodeck_action.record.evaluation import Polarity
from holodeck_action.suite.model.base import Flag, FormatModel, NonBlank, UnitInterval, with_values
from holodeck_action.suite.model.judging import Judges
from holodeck_action.suite.model.metric_base import (
    GROUND_TRUTH,
    EvaluationParam,
    JudgeCalls,
    JudgedMetric,
    Metric,
    QuestionMetric,
    Role,
)
from holodeck_action.suite.model.probing import Exam
from holodeck_action.suite.model.providers import LLMProvider

LEVELS = 3
"""Number of levels in the built-in rubrics: they are 1, 2 and 3."""
PARAMS_WITH_EXPECTED = ("input", "actual_output", "expected_output")
ANSWER_PARAMS = ("input", "actual_output")


class Criterion(Struct, frozen=True):
    """The criterion by which the judge of a built-in part grades. The wording is ours, not HoloDeck's.

    Attributes:
        name: name of the metric.
        params: names, as in `GEvalEvaluator`, of the fields that the judge receives.
        criteria: the question that the judge answers.
        steps: evaluation steps for the judge.
        levels: descriptions of answers at levels 1, 2 and 3.
        polarity: whether a high or a low level is good.
    """

    name: str
    params: tuple[str, ...]
    criteria: str
    steps: tuple[str, ...]
    levels: tuple[str, str, str]
    polarity: Polarity = "maximize"
    without_context: Criterion | None = None
    """The criterion that replaces this one if there are no retrieved texts; None if this one always applies."""


class GradedPart(JudgedMetric):
    """A part of a metric that a judge grades separately; entries cannot have this type.

    `scored` is True if DeepEval calls the judge, and False if this package does, as for refusals and trajectories.
    """

    type: Literal["part"] = "part"
    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    scored: Flag = True

    @property
    def library(self) -> str | None:
        """The library that calls the judge."""
        return "deepeval" if self.scored else None


class PresetPart(FormatModel):
    """A metric of a preset."""

    enabled: Flag = True
    """False: the metric is not graded."""
    model: LLMProvider | None = None
    """The judge, without a panel; the preset's when absent."""

    SCORED: ClassVar[bool] = False
    """Whether DeepEval calls the judge."""

    @property
    def needs(self) -> frozenset[str] | None:
        """The inputs that the part's settings require; None if the settings do not determine them."""
        return None

    @property
    def writes_steps(self) -> bool:
        """Whether the judge writes its own evaluation steps."""
        return False


class ScoredPart(PresetPart):
    """A metric of a preset with a threshold."""

    SCORED = True

    threshold: UnitInterval = 0.5
    """Lowest passing score; for redundancy the highest."""


class CriterionPart(ScoredPart):
    """A metric of a preset with criteria, steps and levels, each of which may be replaced."""

    SCHEMA_RULES = (
        {"if": with_values("evaluation_params"), "then": {"properties": {"evaluation_params": ANSWER_IS_SHOWN}}},
    )

    criteria: NonBlank | None = None
    """Your own criteria. The built-in steps and levels then do not apply. Example: `Does the answer name its source?`.
    """
    evaluation_steps: Annotated[list[NonBlank], Field(min_length=1)] | None = None
    """Your own steps. Example: `[Look for the source.]`."""
    evaluation_params: Annotated[list[EvaluationParam], Field(min_length=1)] | None = None
    """The inputs that the judge sees. Example: `[actual_output, expected_output]`."""
    rubric: Annotated[list[NonBlank], Field(min_length=2, max_length=10)] | None = None
    """A description of an answer of each level, for 2 to 10 levels. Example: `[It names none., It names all.]`."""

    @model_validator(mode="after")
    def _check_answer_is_graded(self) -> CriterionPart:
        if self.evaluation_params is not None:
            check_params(self.evaluation_params)
        return self

    @property
    def levels(self) -> int | None:
        """Number of levels that the judge chooses from; None if it grades from 0 to 10."""
        if self.rubric is not None:
            return len(self.rubric)
        return LEVELS if self.criteria is None else None

    @property
    def needs(self) -> frozenset[str] | None:
        """The inputs that `evaluation_params` requires; None if it is not set."""
        params = self.evaluation_params
        return None if params is None else frozenset(INPUT_OF_PARAM[name] for name in params if name in INPUT_OF_PARAM)

    @property
    def writes_steps(self) -> bool:
        """Whether the judge writes its own evaluation steps, which it does for custom criteria without steps."""
        return self.criteria is not None and self.evaluation_steps is None


class PresetParts(FormatModel):
    """The metrics of a preset by name."""

    COUNTED: ClassVar[tuple[str, ...]] = ()
    """Names of the metrics that make up the score; at least one must be enabled."""
    COMPARES: ClassVar[bool] = True
    """Whether the built-in criteria need the expected output."""

    @property
    def counted_parts(self) -> dict[str, PresetPart]:
        """The enabled metrics that make up the score, by name."""
        parts = {name: getattr(self, name) for name in self.COUNTED}
        return {name: part for name, part in parts.items() if part.enabled}

    @property
    def judged_parts(self) -> dict[str, PresetPart]:
        """The enabled metrics that need a judge, by name."""
        return self.counted_parts

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that the enabled metrics need besides the answer."""
        found = [part.needs for part in self.counted_parts.values()]
        built_in = GROUND_TRUTH if self.COMPARES and None in found else frozenset[str]()
        return built_in.union(*(needs for needs in found if needs is not None))

    def check_counted(self) -> None:
        """Check that at least one metric that makes up the score is enabled.

        Raises:
            PydanticCustomError: all of them are disabled.
        """
        if not self.counted_parts:
            raise PydanticCustomError(
                "metrics", "leaves nothing to grade: enable one of {names}", {"names": ", ".join(self.COUNTED)}
            )


class AnswerParts(PresetParts):
    """`metrics` of `generation` and `query_transformation`."""

    COUNTED = ("completeness", "groundedness", "redundancy")

    completeness: CriterionPart = Field(default_factory=CriterionPart)
    """Whether the text contains all expected content."""
    groundedness: CriterionPart = Field(default_factory=CriterionPart)
    """Whether every statement of the text is supported."""
    redundancy: CriterionPart = Field(default_factory=CriterionPart)
    """How much of the text is repeated or irrelevant. Low is good."""


class PresetMetric(QuestionMetric):
    """Common settings of all presets."""

    if TYPE_CHECKING:
        # Every subclass has this field, after the fields that all share.
        metrics: Any

    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    """The judge of those metrics that set no model; `evaluations.model` when absent."""
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score of the preset. All metrics of the preset must pass as well. Example: `0.7`."""
    parallel: Flag = True
    """False: its metrics are graded one after the other."""

    @model_validator(mode="after")
    def _check_something_is_graded(self) -> Self:
        if isinstance(self.metrics, PresetParts):
            self.metrics.check_counted()
        return self

    @property
    def judged_members(self) -> dict[str, PresetPart]:
        """The enabled parts that need a judge, by name."""
        judged: dict[str, PresetPart] = self.metrics.judged_parts
        return judged

    @property
    def own_exam(self) -> Exam | None:
        """The preset's pair; None if the suite replaces criteria, levels or inputs of a part."""
        parts = self.judged_members.values()
        own = any(
            part.criteria or part.rubric or part.evaluation_params for part in parts if isinstance(part, CriterionPart)
        )
        return self._built_in_exam() if parts and not own else None

    def _built_in_exam(self) -> Exam:
        """Return the pair for the built-in criteria."""
        shared = {"ground_truth": ANSWER, "retrieval_context": (FACT,)}
        return question_exam(f"{OFF_TOPIC} {OFF_TOPIC} {OFF_TOPIC}", shared)

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that the preset's parts need."""
        needs: frozenset[str] = self.metrics.needs
        return needs

    def _can_fail(self) -> bool:
        return True

    @property
    def powerless_threshold(self) -> float | None:
        """None: the preset can fail at any threshold, because each of its metrics can fail."""
        return None

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield the judges of the preset's parts, each with a name.

        The preset's own judges have an empty name and come first, if any part uses them. The judges of a part that sets
        its own model have the name of the part.
        """
        parts = self.judged_members
        shared = [part for part in parts.values() if part.model is None]
        if shared:
            scored = any(part.SCORED for part in shared)
            yield "", GradedPart(model=self.model, judges=self.judges, scored=scored)
        for name, part in parts.items():
            if part.model is not None:
                yield name, self.graded_part(part)

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the judge calls that each part makes."""
        for part in self.judged_members.values():
            yield JudgeCalls(self.graded_part(part), self._calls_of_part(), writes_steps=part.writes_steps)

    def _calls_of_part(self) -> int:
        return 1

    def graded_part(self, part: PresetPart) -> GradedPart:
        """Return the judges of a part: only its own model if it sets one, else the preset's model or panel."""
        if part.model is not None:
            alone = Judges(models=(), fallback_models=(), min_successful_judges=1, escalate=None)
            return GradedPart(model=part.model, judges=alone, scored=part.SCORED)
        return GradedPart(model=self.model, judges=self.judges, scored=part.SCORED)

    def options(self, building: BuildContext) -> dict[str, Any]:
        """Return the keyword arguments of a preset's evaluator, except for its name and members."""
        return {"parallel": self.parallel, "threshold": self.threshold, "timeout": building.options["timeout"]}

    def geval_of_part(
        self, part: PresetPart, built_in: Criterion, building: BuildContext, scores: Mapping[int, float] | None = None
    ) -> BaseEvaluator:
        """Return the G-Eval evaluator for a part.

        Args:
            part: settings of the part, a `CriterionPart`.
            built_in: criterion to use unless the part replaces it.
            building: see `evaluator`.
            scores: score for each level; None for scores that are evenly spread.
        """
        from holodeck_action.extensions.deepeval.geval import GEvalEvaluator
        from holodeck_action.extensions.deepeval.rubric import build_rubric

        assert isinstance(part, CriterionPart)
        own = part.criteria is not None

        def evaluator_of(criterion: Criterion) -> BaseEvaluator:
            outcomes = part.rubric or (None if own else list(criterion.levels))
            return building.judged_evaluator(
                self.graded_part(part),
                GEvalEvaluator,
                name=criterion.name,
                criteria=part.criteria or criterion.criteria,
                evaluation_params=part.evaluation_params or criterion.params,
                evaluation_steps=part.evaluation_steps or (None if own else criterion.steps),
                rubric=None if outcomes is None else build_rubric(outcomes, scores),
                polarity=criterion.polarity,
                threshold=part.threshold,
            )

        found = evaluator_of(built_in)
        if part.evaluation_params is not None or built_in.without_context is None:
            return found
        return either(found, evaluator_of(built_in.without_context))

    def criteria_members(
        self,
        parts: PresetParts,
        built_in: Sequence[Criterion],
        building: BuildContext,
        scores: object = None,
        weights: object = None,
    ) -> list[Member]:
        """Return the member evaluators of a preset whose parts all use G-Eval.

        Args:
            parts: settings of the parts.
            built_in: built-in criteria, each of which may be replaced by the settings of its part.
            building: see `evaluator`.
            scores: the scores of levels by part, as attributes; None for scores that are evenly spread.
            weights: the weights of the parts, as attributes; None for equal weights.
        """
        by_name = {criterion.name: criterion for criterion in built_in}
        return [
            Member(
                name,
                self.geval_of_part(part, by_name[name], building, getattr(scores, name, None)),
                weight=getattr(weights, name, 1.0),
            )
            for name, part in parts.counted_parts.items()
        ]
