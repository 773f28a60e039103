"""The metric `type: generation`: completeness, groundedness and redundancy of an answer that is not a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.presets.parts import (
    ANSWER_PARAMS,
    PARAMS_WITH_EXPECTED,
    AnswerParts,
    Criterion,
    PresetMetric,
    PresetPart,
)
from holodeck_action.metrics.base import BaseEvaluator, BuildContext, EvalParam, EvaluationResult
from holodeck_action.metrics.judging.refusal import RefusalMetric, describe_refusal
from holodeck_action.metrics.metric_sets import Member, PresetResult, TextEvaluator
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, Role

_COMPLETENESS = Criterion(
    "completeness",
    PARAMS_WITH_EXPECTED,
    "How much of what the expected output says in reply to the input does the actual output say, too?",
    (
        "List the facts and instructions of the expected output that the input asks for.",
        "For each of them look whether the actual output says it, in whatever words, and without contradicting it.",
        "Leave out of account what the actual output says beyond them, how it is worded and how long it is.",
        "Choose the level by how many are there, and whether one that the input is mainly about is missing or wrong.",
    ),
    (
        "Nothing of it is there, or what the input is mainly about is missing or wrong.",
        "What the input is mainly about is there, but something else of it is missing or wrong.",
        "All of it is there.",
    ),
)
_GROUNDEDNESS_WITHOUT_CONTEXT = Criterion(
    "groundedness",
    PARAMS_WITH_EXPECTED,
    "Does everything that the actual output states agree with the expected output or the input?",
    (
        "List the statements of fact in the actual output; greetings, offers of help and questions are none.",
        "For each of them look whether the expected output or the input says it, or whether it follows from them.",
        "What is true but stands in neither has no ground here; what contradicts them is worse.",
        "Choose the level by the statements without a ground, and by how much of the answer hangs on them.",
    ),
    (
        "It contradicts the expected output, or its main statement has no ground.",
        "Its main statement has a ground, but another one has none.",
        "Every statement has a ground.",
    ),
)
_GROUNDEDNESS = Criterion(
    "groundedness",
    (*ANSWER_PARAMS, "retrieval_context"),
    "Does everything that the actual output states rest on the retrieval context or on the input?",
    (
        "List the statements of fact in the actual output; greetings, offers of help and questions are none.",
        "For each of them look for the part of the retrieval context, or of the input, that says it or from which it "
        "follows.",
        "What is true but stands in neither does not rest on them; what contradicts them is worse.",
        "Choose the level by the statements that rest on nothing, and by how much of the answer hangs on them.",
    ),
    (
        "It contradicts the texts, or its main statement rests on nothing in them.",
        "Its main statement rests on the texts, but another one does not.",
        "Every statement rests on the texts.",
    ),
    without_context=_GROUNDEDNESS_WITHOUT_CONTEXT,
)
_REDUNDANCY = Criterion(
    "redundancy",
    PARAMS_WITH_EXPECTED,
    "How much does the actual output say twice, or say without need?",
    (
        "Find what the actual output says more than once, in the same words or in others.",
        "Find what neither the input asks for nor the expected output says, and what the answer could go without.",
        "A short greeting or closing is not counted.",
        "Choose the level by how much of the actual output is of these two kinds: a high level is bad.",
    ),
    (
        "Nothing, or next to nothing, could be left out.",
        "A sentence or two could be left out.",
        "Much of it repeats itself or is beside the point.",
    ),
    "minimize",
)
CRITERIA = (_COMPLETENESS, _GROUNDEDNESS, _REDUNDANCY)


class GenerationParts(AnswerParts):
    """`metrics` of `generation`."""

    refusal: PresetPart = Field(default_factory=PresetPart)
    """The metric that decides whether the answer is a refusal."""

    @property
    def judged_parts(self) -> dict[str, PresetPart]:
        """The enabled metrics that need a judge, by name, with `refusal` first."""
        return ({"refusal": self.refusal} if self.refusal.enabled else {}) | self.counted_parts

    @property
    def needs(self) -> frozenset[str]:
        """The inputs of the enabled metrics; `refusal` needs the expected output."""
        return super().needs | GROUND_TRUTH if self.refusal.enabled else super().needs


class GenerationMetric(PresetMetric):
    """`type: generation`: completeness, groundedness and redundancy of an answer that is not a refusal."""

    PLACE = 10

    type: Annotated[Literal["generation"], Role.KIND] = "generation"
    metrics: GenerationParts = Field(default_factory=GenerationParts)
    """Settings of its metrics, by name. Example: `{redundancy: {enabled: false}}`."""

    @model_validator(mode="after")
    def _check_refusal(self) -> Self:
        if self.grades_conversation and self.metrics.refusal.enabled:
            raise PydanticCustomError(
                "scope",
                "cannot be conversation with the part refusal, which reads one request: set metrics.refusal.enabled: "
                "false",
            )
        return self

    def evaluator(self, building: BuildContext) -> GenerationEvaluator:
        """Return an evaluator with the enabled metrics."""
        options = self.options(building)
        return generation_evaluator(self.name or self.type, self, self.metrics, building, **options)


def generation_evaluator(
    name: str, config: PresetMetric, parts: GenerationParts, building: BuildContext, **options: Any
) -> GenerationEvaluator:
    """Return an evaluator with these parts; `config` supplies the judge for parts that set no model."""
    refusal = None
    if parts.refusal.enabled:
        refusal = RefusalMetric().evaluator(building, config.graded_part(parts.refusal))
    members = config.criteria_members(parts, CRITERIA, building)
    return GenerationEvaluator(name, members, refusal=refusal, **options)


class GenerationEvaluator(TextEvaluator):
    """Grades the completeness, groundedness and redundancy of an answer, unless the answer refuses.

    A refusal scores 1 if the expected output is a refusal, too, and otherwise 0; in both cases, the metrics are not
    computed. The metadata field `refused` is true if the answer is a refusal.
    """

    def __init__(
        self, name: str, members: Sequence[Member], *, refusal: BaseEvaluator | None = None, **kwargs: Any
    ) -> None:
        """Create an evaluator from its member evaluators.

        Args:
            name: name of the evaluator.
            members: evaluators of the metrics.
            refusal: evaluator that detects refusals, such as the evaluator of `RefusalMetric()`; None to grade refusals
                like any other answer.
            **kwargs: see `PresetEvaluator`.
        """
        super().__init__(name, members, **kwargs)
        self._refusal = refusal
        if refusal is not None:
            spec = self.PARAM_SPEC
            compared = frozenset({EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT, EvalParam.EXPECTED_OUTPUT})
            self.PARAM_SPEC = spec._replace(required=spec.required | compared, optional=spec.optional - compared)

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        if self._refusal is None or not str(kwargs["actual_output"]).strip():
            return await super()._evaluate_impl(**kwargs)
        asked = {"input": kwargs["input"], "actual_output": kwargs["actual_output"]}
        refusal = await self._evaluate_member(Member("refusal", self._refusal), asked)
        found = refusal.result
        if found is None:
            return self._combine([refusal])
        shown = {"explanation": found.reasoning, **found.metadata}
        if found.passed:
            facts = {"refused": False, **({"refusal": shown} if "panel" in found.metadata else {})}
            return self._combine(await self._evaluate_members(kwargs), facts)
        should = False
        if str(kwargs["expected_output"]).strip():
            compared = await self._refusal.evaluate(input=kwargs["input"], actual_output=kwargs["expected_output"])
            should = not compared.passed
        judge = found.metadata.get("judge")
        return PresetResult(
            score=float(should),
            passed=should,
            reasoning=describe_refusal(True, should, found.reasoning.partition(": ")[2] or found.reasoning),
            metric_name=self.metric_name,
            metadata={
                **({} if judge is None else {"judge": judge}),
                "refused": True,
                "should_refuse": should,
                "refusal": shown,
            },
        )
