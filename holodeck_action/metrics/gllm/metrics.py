"""The metrics of gllm-evals: each is one of this package's, built from the settings that its YAML type has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from holodeck_action.metrics.agent import TOOL_CORRECTNESS, TRAJECTORY
from holodeck_action.metrics.base import BaseEvaluator, Building
from holodeck_action.metrics.deepeval.tool_correctness import DeepEvalToolCorrectnessEvaluator
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.generation import GenerationMetric
from holodeck_action.metrics.gllm.inputs import given_inputs, has, shown_name
from holodeck_action.metrics.gllm.judging import Grading, Model, Models
from holodeck_action.metrics.lm_retrieval import LmRetrievalMetric
from holodeck_action.metrics.params import EvalParam
from holodeck_action.metrics.presets.parts import PresetMetric
from holodeck_action.metrics.presets.preset import Member, Outcome, PresetEvaluator
from holodeck_action.metrics.query_transformation import QueryTransformationMetric
from holodeck_action.metrics.refusal import RefusalMetric
from holodeck_action.metrics.retrieval import RetrievalEvaluator, RetrievalMetric, RetrievalName
from holodeck_action.metrics.summarization import SummarizationMetric
from holodeck_action.metrics.trajectory_accuracy import TrajectoryAccuracyMetric
from holodeck_action.suite.metric_base import Metric


class BaseMetric:
    """A metric: a name, and the evaluator that grades.

    Attributes:
        name: its name in results.
        evaluator: what grades.
        asserts: whether its result has a verdict.
    """

    def __init__(self, name: str, evaluator: BaseEvaluator, *, asserts: bool = True) -> None:
        self.name = name
        self.evaluator = evaluator
        self.asserts = asserts

    @property
    def required_fields(self) -> set[str]:
        """The names of the inputs without which it cannot evaluate."""
        return {shown_name(param) for param in self.evaluator.PARAM_SPEC.required}

    def member(self, name: str | None = None, *, neutral: bool = False, weight: float = 1.0) -> Member:
        """Return it as a part of an evaluator."""
        return Member(name or self.name, self.evaluator, neutral=neutral, weight=weight, asserts=self.asserts)

    def can_evaluate(self, data: object) -> bool:
        """Tell whether an item has all that it needs."""
        given = given_inputs(data)
        return all(has(given, param) for param in self.evaluator.PARAM_SPEC.required)

    async def evaluate(self, data: object) -> dict[str, Any]:
        """Evaluate one item; the result holds score, success, threshold, explanation and what the metric found.

        Raises:
            TimeoutError: it took too long.
            EvaluationError: see `BaseEvaluator.evaluate`.
        """
        given = given_inputs(data)
        check_given(self.name, self.evaluator, given)
        result = await self.evaluator.evaluate(**given)
        return contract(Outcome(self.member(), result, None).data())


def check_given(name: str, evaluator: BaseEvaluator, given: Mapping[str, Any]) -> None:
    """Refuse an item that lacks an input, by the name that gllm-evals has for it.

    Raises:
        EvaluationError: it does (code `missing_input`).
    """
    for param in EvalParam:
        if param in evaluator.PARAM_SPEC.required and not has(given, param):
            raise EvaluationError(
                f"{name} needs {shown_name(param)}, which was not given",
                code="missing_input",
                context={"parameter": shown_name(param)},
            )


def contract(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a metric found with `success`; one that is several metrics has the aggregates, too."""
    told = {name: contract(value) if _is_part(value) else value for name, value in found.items()}
    told["success"] = found["passed"]
    if any(map(_is_part, found.values())):
        told |= aggregates(found["score"], found["passed"], found["explanation"])
    return told


def aggregates(score: Any, passed: bool | None, explanation: str) -> dict[str, Any]:
    """Return the result of several metrics as gllm-evals names it."""
    return {"aggregate_explanation": explanation, "aggregate_success": passed, "aggregate_score": score}


def _is_part(value: Any) -> bool:
    return isinstance(value, Mapping) and {"score", "passed", "explanation"} <= value.keys()


def metric_of(given: BaseMetric | BaseEvaluator) -> BaseMetric:
    """Return a metric, also for an evaluator of this package.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(given, BaseMetric):
        return given
    if isinstance(given, BaseEvaluator):
        return BaseMetric(given.metric_name, given, asserts=getattr(given, "threshold", None) is not None)
    raise ValueError(f"a metric must be one of this package, not {type(given).__name__}")


def built(config: Metric, grading: Grading, k: int | None = None) -> BaseEvaluator:
    """Return the evaluator of an entry, graded by these models; `k` is its cut-off rank."""
    found = config.evaluator(Building({"timeout": None}, grading.grade, _no_members, k))
    assert isinstance(found, BaseEvaluator)
    return found


def members_of(config: PresetMetric, grading: Grading) -> dict[str, BaseMetric]:
    """Return the metrics of a preset's entry by name."""
    evaluator = built(config, grading)
    assert isinstance(evaluator, PresetEvaluator)
    return {member.name: BaseMetric(member.name, member.evaluator) for member in evaluator.members}


def _no_members(*_: Any) -> BaseEvaluator:
    raise AssertionError("only composites create the evaluators of their entries")


class _Judged(BaseMetric):
    """A metric that models grade: one part of a preset, with the part's settings."""

    NAME: ClassVar[str]
    CONFIG: ClassVar[type[GenerationMetric | SummarizationMetric | LmRetrievalMetric | QueryTransformationMetric]]

    def __init__(
        self,
        models: Models = None,
        threshold: float = 0.5,
        aggregation_method: str | None = None,
        max_concurrent_judges: int | None = None,
        fallback_models: Sequence[Model] | None = None,
        **settings: Any,
    ) -> None:
        """Configure; nothing is asked.

        Args:
            models: who grades.
            threshold: lowest passing score, 0..1; the highest one where low is good.
            aggregation_method: how the verdicts of several judges become one.
            max_concurrent_judges: judges asked at once.
            fallback_models: stand in for a judge that gives no verdict.
            **settings: as in YAML: `criteria`, `evaluation_steps`, `evaluation_params`, `rubric`.

        Raises:
            ValueError: a setting that is none.
        """
        grading = Grading(models, aggregation_method, max_concurrent_judges, fallback_models)
        parts: dict[str, Any] = {name: {"enabled": False} for name in self.CONFIG().metrics.COUNTED}
        parts[self.NAME] = {"threshold": threshold, **settings}
        config = self.CONFIG.model_validate({"metrics": parts})
        super().__init__(self.NAME, members_of(config, grading)[self.NAME].evaluator)
        self.threshold = threshold


class GEvalCompletenessMetric(_Judged):
    """How much of the expected output the answer says."""

    NAME, CONFIG = "completeness", GenerationMetric


class GEvalGroundednessMetric(_Judged):
    """Whether retrieved texts, else the expected output, bear the answer out."""

    NAME, CONFIG = "groundedness", GenerationMetric


class GEvalRedundancyMetric(_Judged):
    """How much of the answer is said twice or was not asked for; low is good."""

    NAME, CONFIG = "redundancy", GenerationMetric


class GEvalCoherenceMetric(_Judged):
    """Whether a summary hangs together."""

    NAME, CONFIG = "coherence", SummarizationMetric


class GEvalConsistencyMetric(_Judged):
    """Whether a summary says nothing that its source does not."""

    NAME, CONFIG = "consistency", SummarizationMetric


class GEvalFluencyMetric(_Judged):
    """Whether a summary is well written."""

    NAME, CONFIG = "fluency", SummarizationMetric


class GEvalRelevanceMetric(_Judged):
    """Whether a summary holds what matters of its source."""

    NAME, CONFIG = "relevance", SummarizationMetric


class DeepEvalContextualPrecisionMetric(_Judged):
    """Whether relevant texts are ranked first."""

    NAME, CONFIG = "contextual_precision", LmRetrievalMetric


class DeepEvalContextualRecallMetric(_Judged):
    """How much of the expected output the retrieved texts support."""

    NAME, CONFIG = "contextual_recall", LmRetrievalMetric


class GEvalRefusalMetric(BaseMetric):
    """Whether the answer refuses: 1 when it does not."""

    def __init__(self, models: Models = None, fallback_models: Sequence[Model] | None = None) -> None:
        """Configure; `models` grade, `fallback_models` stand in for them."""
        grading = Grading(models, fallback_models=fallback_models)
        super().__init__("refusal", built(RefusalMetric(), grading))


class DeepEvalToolCorrectnessMetric(BaseMetric):
    """DeepEval's own number of the tool calls; no model is asked."""

    def __init__(self, threshold: float = 0.5, models: Models = None, **options: Any) -> None:
        """Configure.

        Args:
            threshold: lowest passing score, 0..1.
            models: not asked: no tools are given to choose from.
            **options: as in YAML: `evaluation_params`, `should_exact_match`, `should_consider_ordering`, `strict_mode`.

        Raises:
            ValueError: a setting that is none.
        """
        Grading(models)
        evaluator = DeepEvalToolCorrectnessEvaluator(threshold=threshold, **options)
        super().__init__(TOOL_CORRECTNESS, evaluator)
        self.threshold = evaluator.threshold


class LangChainAgentTrajectoryAccuracyMetric(BaseMetric):
    """Whether the way to the answer makes sense; a judge looks at the whole trajectory."""

    def __init__(
        self, models: Models = None, threshold: float = 0.5, fallback_models: Sequence[Model] | None = None
    ) -> None:
        """Configure; `models` grade, scores from `threshold` pass, `fallback_models` stand in."""
        grading = Grading(models, fallback_models=fallback_models)
        super().__init__(TRAJECTORY, built(TrajectoryAccuracyMetric(threshold=threshold), grading))
        self.threshold = threshold


class ClassicalRetrievalMetric(BaseMetric):
    """One retrieval metric at one cut-off rank, such as `recall_at_k` at 5, named `recall_at_5`."""

    def __init__(self, metric: RetrievalName, k: int = 20, threshold: float | None = None) -> None:
        """Configure.

        Args:
            metric: `precision_at_k`, `recall_at_k`, `hit_rate_at_k`, `mrr_at_k`, `map_at_k` or `ndcg_at_k`.
            k: cut-off rank, at least 1.
            threshold: lowest passing score, 0..1; None for no verdict.

        Raises:
            ValueError: a metric or rank that is none.
        """
        evaluator = RetrievalEvaluator(metric=metric, k=k, threshold=threshold)
        name = RetrievalMetric(metric=metric).base_name(k)
        super().__init__(name, evaluator, asserts=threshold is not None)
        self.k = k
