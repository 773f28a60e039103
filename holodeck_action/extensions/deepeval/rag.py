"""DeepEval's metrics for answers from retrieved texts (HoloDeck evaluation API, RAG metrics)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from holodeck_action.extensions.deepeval.base import DeepEvalBaseEvaluator
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.extensions.deepeval.entities import RAGMetricConfig
from holodeck_action.extensions.deepeval.library import module
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.base import EvaluationResult, RetryConfig
from holodeck_action.metrics.params import EvalParam, ParamSpec

if TYPE_CHECKING:
    from holodeck_action.extensions.tracing.settings import Traces

_ANSWERED = frozenset({EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT})
_RETRIEVED = frozenset({EvalParam.RETRIEVAL_CONTEXT})
_EXPECTED = frozenset({EvalParam.EXPECTED_OUTPUT})
_NOTHING_RETRIEVED = "nothing was retrieved"


class RagEvaluator(DeepEvalBaseEvaluator):
    """A metric whose score is a share of verdicts."""

    CLASS: ClassVar[str]

    def __init__(
        self,
        model_config: DeepEvalModelConfig | None = None,
        threshold: float | None = 0.5,
        include_reason: bool = True,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
        observability_config: Traces | None = None,
        *,
        judge: JudgeModel | None = None,
    ) -> None:
        """Configure.

        Args:
            model_config: see the base class.
            threshold: lowest passing score, 0..1.
            include_reason: whether the judge explains the score, which is one call more.
            timeout: seconds one evaluation may take.
            retry_config: retries of transient failures.
            observability_config: see the base class.
            judge: see the base class.
        """
        super().__init__(model_config, threshold, timeout, retry_config, observability_config, judge=judge)
        self._include_reason = include_reason

    @classmethod
    def from_config(cls, config: RAGMetricConfig, **options: Any) -> Self:
        """Return the evaluator of a configuration; `options` are the other arguments of the class."""
        return cls(config.model_config, config.threshold, config.include_reason, **options)

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "include_reason": self._include_reason, **self._options()}

    def _create_metric(self) -> Any:
        return getattr(module("deepeval.metrics"), self.CLASS)(
            threshold=self._threshold, model=self._model, include_reason=self._include_reason, **self._options()
        )

    def _prepare(self, metric: Any, test_case: Any) -> None:
        # DeepEval counts a missing verdict as a good one.
        metric.model.problem = lambda verdict: self._miscounted(metric, test_case, verdict)

    def _options(self) -> dict[str, Any]:
        return {}

    def _items(self, metric: Any, test_case: Any) -> int | None:
        """Return how many verdicts there must be; None for any number."""
        return None

    def _miscounted(self, metric: Any, test_case: Any, verdict: Any) -> str | None:
        verdicts: Sequence[Any] | None = getattr(verdict, "verdicts", None)
        if verdicts is None:
            return None
        wanted = self._items(metric, test_case)
        if wanted is None or len(verdicts) == wanted:
            return None
        return f"it holds {len(verdicts)} verdicts, there must be {wanted}"

    def _empty(self, given: Mapping[str, Any]) -> EvaluationResult | None:
        """Give an empty answer a 0: it has no statement that could be wrong, so DeepEval would give it a 1."""
        return None if str(given[EvalParam.ACTUAL_OUTPUT.value]).strip() else self._nothing("the answer is empty")

    def _nothing(self, reason: str) -> EvaluationResult:
        return EvaluationResult(score=0.0, reasoning=reason, metric_name=self.metric_name, threshold=self._threshold)

    def _result(self, metric: Any, test_case: Any, judge: str) -> EvaluationResult:
        if not metric.reason:
            metric.reason = self._arithmetic(self._metadata(metric, test_case), float(metric.score))
        return super()._result(metric, test_case, judge)

    def _arithmetic(self, found: Mapping[str, Any], score: float) -> str:
        """Say what the score was computed from, where the judge does not explain it."""
        counts = ", ".join(
            f"{name.replace('_', ' ')}: {value}" for name, value in found.items() if isinstance(value, int)
        )
        return f"{self.METRIC} is {score:g} ({counts})" if counts else f"{self.METRIC} is {score:g}"


class _ContextualEvaluator(RagEvaluator):
    """A metric of the retrieved texts; without any of them it is 0, and no judge is asked."""

    def _settled(self, given: Mapping[str, Any]) -> EvaluationResult | None:
        return None if _has_text(given[EvalParam.RETRIEVAL_CONTEXT.value]) else self._nothing(_NOTHING_RETRIEVED)


class AnswerRelevancyEvaluator(RagEvaluator):
    """The share of the answer's statements that are about the question: (not irrelevant) / all.

    1 without statements, but 0 for an empty answer.
    """

    METRIC = "AnswerRelevancy"
    CLASS = "AnswerRelevancyMetric"
    PARAM_SPEC = ParamSpec(required=_ANSWERED)

    def __init__(
        self,
        model_config: DeepEvalModelConfig | None = None,
        threshold: float | None = 0.5,
        include_reason: bool = True,
        strict_mode: bool = False,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
        observability_config: Traces | None = None,
        *,
        judge: JudgeModel | None = None,
    ) -> None:
        """Configure; `strict_mode` makes every score below 1 a 0. For the rest see `RagEvaluator`."""
        super().__init__(
            model_config, threshold, include_reason, timeout, retry_config, observability_config, judge=judge
        )
        self._strict_mode = strict_mode

    def _options(self) -> dict[str, Any]:
        return {"strict_mode": self._strict_mode}

    def _settled(self, given: Mapping[str, Any]) -> EvaluationResult | None:
        return self._empty(given)

    def _items(self, metric: Any, test_case: Any) -> int | None:
        return len(metric.statements)

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        irrelevant = _items_with(metric.statements, metric.verdicts, "no")
        count = len(metric.statements)
        return {
            "statements_count": count,
            "relevant_statements": count - len(irrelevant),
            "irrelevant_statements": irrelevant,
        }


class FaithfulnessEvaluator(RagEvaluator):
    """The share of the answer's claims that the retrieved texts do not contradict.

    1 without claims, but 0 for an empty answer, and for claims where nothing was retrieved.
    """

    METRIC = "Faithfulness"
    NEEDS_QUESTION = False
    CLASS = "FaithfulnessMetric"
    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.ACTUAL_OUTPUT}) | _RETRIEVED,
        optional=frozenset({EvalParam.INPUT}),
        uses_retrieval_context=True,
    )

    def _settled(self, given: Mapping[str, Any]) -> EvaluationResult | None:
        return self._empty(given)

    def _items(self, metric: Any, test_case: Any) -> int | None:
        return len(metric.claims)

    def _result(self, metric: Any, test_case: Any, judge: str) -> EvaluationResult:
        if metric.claims and not _has_text(test_case.retrieval_context):
            # DeepEval counts what nothing contradicts.
            for item in metric.verdicts:
                item.verdict = "no"
            metric.score, metric.reason = 0.0, f"{_NOTHING_RETRIEVED} that could bear the answer out"
        return super()._result(metric, test_case, judge)

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        unsupported = _items_with(metric.claims, metric.verdicts, "no")
        return {
            "claims_count": len(metric.claims),
            "supported_claims": len(metric.claims) - len(unsupported),
            "unsupported_claims": unsupported,
        }


class ContextualRelevancyEvaluator(_ContextualEvaluator):
    """The share of the statements in the retrieved texts that are about the question; 0 without statements."""

    METRIC = "ContextualRelevancy"
    CLASS = "ContextualRelevancyMetric"
    PARAM_SPEC = ParamSpec(required=_ANSWERED | _RETRIEVED, uses_retrieval_context=True)

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        relevant = [any(item.verdict == "yes" for item in chunk.verdicts) for chunk in metric.verdicts_list]
        return {
            "relevant_chunks": sum(relevant),
            "total_chunks": len(relevant),
            "irrelevant_chunk_indices": [index for index, found in enumerate(relevant) if not found],
        }


class ContextualPrecisionEvaluator(_ContextualEvaluator):
    """Whether relevant texts are ranked first: the mean of precision@k over the relevant ranks; 0 without any."""

    METRIC = "ContextualPrecision"
    CLASS = "ContextualPrecisionMetric"
    PARAM_SPEC = ParamSpec(required=_ANSWERED | _EXPECTED | _RETRIEVED, uses_retrieval_context=True)

    def _items(self, metric: Any, test_case: Any) -> int | None:
        return len(test_case.retrieval_context)

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        relevant = [item.verdict == "yes" for item in metric.verdicts]
        return {"precision_at_k": {str(k): sum(relevant[:k]) / k for k in range(1, len(relevant) + 1)}}


class ContextualRecallEvaluator(_ContextualEvaluator):
    """The share of the expected answer's sentences that the retrieved texts support; 0 without sentences."""

    METRIC = "ContextualRecall"
    CLASS = "ContextualRecallMetric"
    PARAM_SPEC = ParamSpec(required=_ANSWERED | _EXPECTED | _RETRIEVED, uses_retrieval_context=True)

    def _miscounted(self, metric: Any, test_case: Any, verdict: Any) -> str | None:
        # How many sentences there are is the judge's to say, but a text has one.
        if getattr(verdict, "verdicts", None) == [] and test_case.expected_output.strip():
            return "it holds no verdicts, there must be one for every sentence"
        return None

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        missing = [item.reason for item in metric.verdicts if item.verdict != "yes"]
        return {
            "expected_facts": len(metric.verdicts),
            "retrieved_facts": len(metric.verdicts) - len(missing),
            "missing_facts": missing,
        }


def _has_text(context: Any) -> bool:
    return any(str(text).strip() for text in ([context] if isinstance(context, str) else context))


def _items_with(items: list[str], verdicts: list[Any], verdict: str) -> list[str]:
    return [item for item, judged in zip(items, verdicts, strict=True) if judged.verdict == verdict]
