"""What presets are made of: their parts as settings, the criteria of a part, and who grades it.

Presets are named sets of metrics that are graded together. In `metrics` each of them may be
replaced, disabled, or given its own threshold and model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Struct
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.deepeval.metrics_geval import ANSWER_IS_SHOWN, check_params
from holodeck_action.metrics.base import BaseEvaluator, Building
from holodeck_action.metrics.metric_sets import EitherEvaluator, Member
from holodeck_action.record.evaluation import Polarity
from holodeck_action.suite.model.base import Flag, FormatModel, NonBlank, UnitInterval, given
from holodeck_action.suite.model.judging import Judges
from holodeck_action.suite.model.metric_base import (
    GROUND_TRUTH,
    INPUT_OF_PARAM,
    EvaluationParam,
    GradedPart,
    JudgeCalls,
    JudgedMetric,
    Metric,
    Role,
)
from holodeck_action.suite.model.providers import LLMProvider

LEVELS = 3
"""Levels of the built-in rubrics: 1, 2 and 3."""
COMPARED = ("input", "actual_output", "expected_output")
ANSWERED = ("input", "actual_output")


class Criterion(Struct, frozen=True):
    """What a built-in part asks, in our own words.

    Attributes:
        name: the metric's name.
        params: what the judge sees, in the names of `GEvalEvaluator`.
        criteria: what is graded.
        steps: how the judge proceeds.
        levels: what an answer of level 1, 2 and 3 is like.
        polarity: whether high or low levels are good.
    """

    name: str
    params: tuple[str, ...]
    criteria: str
    steps: tuple[str, ...]
    levels: tuple[str, str, str]
    polarity: Polarity = "maximize"
    without_context: Criterion | None = None
    """What is asked where there are no retrieved texts; None where that makes no difference."""


class PresetPart(FormatModel):
    """A metric of a preset."""

    enabled: Flag = True
    """False: it is not graded."""
    model: LLMProvider | None = None
    """The judge, without a panel; the preset's when absent."""

    SCORED: ClassVar[bool] = False
    """Whether DeepEval asks the judge."""

    @property
    def needs(self) -> frozenset[str] | None:
        """The inputs that its settings name; None where they name none."""
        return None

    @property
    def writes_steps(self) -> bool:
        """Whether the judge writes its steps."""
        return False


class ScoredPart(PresetPart):
    """A metric of a preset with a threshold."""

    SCORED = True

    threshold: UnitInterval = 0.5
    """Lowest passing score; for redundancy the highest."""


class CriterionPart(ScoredPart):
    """A metric of a preset with criteria, steps and levels, each of which may be replaced."""

    SCHEMA_RULES = ({"if": given("evaluation_params"), "then": {"properties": {"evaluation_params": ANSWER_IS_SHOWN}}},)

    criteria: NonBlank | None = None
    """Your own criteria. The built-in steps and levels then do not apply. Example: `Does the answer name its source?`.
    """
    evaluation_steps: Annotated[list[NonBlank], Field(min_length=1)] | None = None
    """Your own steps. Example: `[Look for the source.]`."""
    evaluation_params: Annotated[list[EvaluationParam], Field(min_length=1)] | None = None
    """What the judge sees. Example: `[actual_output, expected_output]`."""
    rubric: Annotated[list[NonBlank], Field(min_length=2, max_length=10)] | None = None
    """A description of an answer of each level, for 2 to 10 levels. Example: `[It names none., It names all.]`."""

    @model_validator(mode="after")
    def _answer_is_graded(self) -> CriterionPart:
        if self.evaluation_params is not None:
            check_params(self.evaluation_params)
        return self

    @property
    def levels(self) -> int | None:
        """How many levels the judge chooses from; None where it grades from 0 to 10."""
        if self.rubric is not None:
            return len(self.rubric)
        return LEVELS if self.criteria is None else None

    @property
    def needs(self) -> frozenset[str] | None:
        """What the judge is shown, where the settings say so."""
        params = self.evaluation_params
        return None if params is None else frozenset(INPUT_OF_PARAM[name] for name in params if name in INPUT_OF_PARAM)

    @property
    def writes_steps(self) -> bool:
        """Whether the judge writes its steps: those of criteria of one's own."""
        return self.criteria is not None and self.evaluation_steps is None


class PresetParts(FormatModel):
    """The metrics of a preset by name."""

    COUNTED: ClassVar[tuple[str, ...]] = ()
    """Those that make the score; without any of them there is nothing to grade."""
    COMPARES: ClassVar[bool] = True
    """Whether the built-in criteria compare with an expected output."""

    @property
    def counted(self) -> dict[str, PresetPart]:
        """The enabled metrics that make the score, by name."""
        parts = {name: getattr(self, name) for name in self.COUNTED}
        return {name: part for name, part in parts.items() if part.enabled}

    @property
    def judged(self) -> dict[str, PresetPart]:
        """The enabled metrics that a model grades, by name."""
        return self.counted

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that they need besides the answer."""
        found = [part.needs for part in self.counted.values()]
        built_in = GROUND_TRUTH if self.COMPARES and None in found else frozenset[str]()
        return built_in.union(*(needs for needs in found if needs is not None))

    def check_counted(self) -> None:
        """Refuse parts of which none makes the score.

        Raises:
            PydanticCustomError: there is none.
        """
        if not self.counted:
            raise PydanticCustomError(
                "metrics", "leaves nothing to grade: enable one of {names}", {"names": ", ".join(self.COUNTED)}
            )


class AnswerParts(PresetParts):
    """`metrics` of `generation` and `query_transformation`."""

    COUNTED = ("completeness", "groundedness", "redundancy")

    completeness: CriterionPart = Field(default_factory=CriterionPart)
    """Whether everything that is expected is there."""
    groundedness: CriterionPart = Field(default_factory=CriterionPart)
    """Whether every statement is supported."""
    redundancy: CriterionPart = Field(default_factory=CriterionPart)
    """Whether much repeats itself. Low is good."""


class PresetMetric(JudgedMetric):
    """What every preset has."""

    if TYPE_CHECKING:
        # A field of every subclass, after those that all share.
        metrics: Any

    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    """The judge of its metrics without their own; `evaluations.model` when absent."""
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score of the whole. All its metrics must pass as well. Example: `0.7`."""
    parallel: Flag = True
    """False: its metrics are graded one after the other."""

    @model_validator(mode="after")
    def _grades_something(self) -> Self:
        if isinstance(self.metrics, PresetParts):
            self.metrics.check_counted()
        return self

    @property
    def judged_members(self) -> dict[str, PresetPart]:
        """The enabled parts that a model grades, by name."""
        judged: dict[str, PresetPart] = self.metrics.judged
        return judged

    @property
    def needs(self) -> frozenset[str]:
        """What its parts need."""
        needs: frozenset[str] = self.metrics.needs
        return needs

    def _can_fail(self) -> bool:
        return True

    @property
    def powerless_threshold(self) -> float | None:
        """None: its parts decide besides."""
        return None

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield who grades: its own model or panel under no name, then the parts' own models under theirs."""
        parts = self.judged_members
        shared = [part for part in parts.values() if part.model is None]
        if shared:
            scored = any(part.SCORED for part in shared)
            yield "", GradedPart(model=self.model, judges=self.judges, scored=scored)
        for name, part in parts.items():
            if part.model is not None:
                yield name, self.graded_part(part)

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the calls of every part."""
        for part in self.judged_members.values():
            yield JudgeCalls(self.graded_part(part), self._calls_of_part(), writes_steps=part.writes_steps)

    def _calls_of_part(self) -> int:
        return 1

    def graded_part(self, part: PresetPart) -> GradedPart:
        """Return who grades a part: its own model alone, else the preset's model or panel."""
        if part.model is not None:
            alone = Judges(models=(), fallback_models=(), min_successful_judges=1)
            return GradedPart(model=part.model, judges=alone, scored=part.SCORED)
        return GradedPart(model=self.model, judges=self.judges, scored=part.SCORED)

    def options(self, building: Building) -> dict[str, Any]:
        """Return what the evaluators of presets take besides name and members."""
        return {"parallel": self.parallel, "threshold": self.threshold, "timeout": building.options["timeout"]}

    def by_criteria(
        self, part: PresetPart, built_in: Criterion, building: Building, scores: Mapping[int, float] | None = None
    ) -> BaseEvaluator:
        """Return the G-Eval of a part.

        Args:
            part: a `CriterionPart`.
            built_in: what is asked where the part says nothing else.
            building: see `evaluator`.
            scores: what each level is worth; evenly spread when absent.
        """
        assert isinstance(part, CriterionPart)
        found = self._geval(part, built_in, building, scores)
        if part.evaluation_params is not None or built_in.without_context is None:
            return found
        without = self._geval(part, built_in.without_context, building, scores)
        return EitherEvaluator(found, without)

    def _geval(
        self, part: CriterionPart, built_in: Criterion, building: Building, scores: Mapping[int, float] | None
    ) -> BaseEvaluator:
        from holodeck_action.extensions.deepeval.geval import GEvalEvaluator
        from holodeck_action.extensions.deepeval.rubric import rubric_of

        own = part.criteria is not None
        outcomes = part.rubric or (None if own else list(built_in.levels))
        return building.asking(
            self.graded_part(part),
            GEvalEvaluator,
            name=built_in.name,
            criteria=part.criteria or built_in.criteria,
            evaluation_params=part.evaluation_params or built_in.params,
            evaluation_steps=part.evaluation_steps or (None if own else built_in.steps),
            rubric=None if outcomes is None else rubric_of(outcomes, scores),
            polarity=built_in.polarity,
            threshold=part.threshold,
        )

    def criteria_members(self, parts: PresetParts, built_in: Sequence[Criterion], building: Building) -> list[Member]:
        """Return the members of a preset whose parts are all G-Evals.

        Args:
            parts: which are enabled, and their settings.
            built_in: what they ask.
            building: see `evaluator`.
        """
        by_name = {criterion.name: criterion for criterion in built_in}
        return [Member(name, self.by_criteria(part, by_name[name], building)) for name, part in parts.counted.items()]
