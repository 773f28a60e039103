"""DeepEval's RAG metrics (HoloDeck evaluation API, RAG metrics)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from holodeck_action.extensions.deepeval.base import DeepEvalBaseEvaluator
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.extensions.deepeval.entities import RAGMetricConfig
from holodeck_action.extensions.deepeval.library import load_module
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.base import EvaluationResult, RetryConfig
from holodeck_action.metrics.params import EvalParam, ParamSpec

if TYPE_CHECKING:
    from holodeck_action.extensions.tracing.settings import Traces

_ANSWERED = frozenset({EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT})
_RETRIEVED = frozenset({EvalParam.RETRIEVAL_CONTEXT})
_EXPECTED = frozenset({EvalParam.EXPECTED_OUTPUT})
_NOTHING_RETRIEVED = "nothing was retrieved"
_SENTENCE_LENGTH, _SHORT_SENTENCES = 10, 3
"""Minimum characters of a sentence, and the number of sentences that may be shorter."""


class RagEvaluator(DeepEvalBaseEvaluator):
    """Base class of RAG metrics, whose score is the proportion of positive verdicts."""

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
        """Configure the evaluator.

        Args:
            model_config: see the base class.
            threshold: lowest passing score, 0..1.
            include_reason: whether the judge explains the score, in one more call.
            timeout: time limit of one evaluation, in seconds.
            retry_config: retries of transient failures.
            observability_config: see the base class.
            judge: see the base class.
        """
        super().__init__(model_config, threshold, timeout, retry_config, observability_config, judge=judge)
        self._include_reason = include_reason

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.metric_name

    @classmethod
    def from_config(cls, config: RAGMetricConfig, **options: Any) -> Self:
        """Create an evaluator from a configuration; `options` are further constructor arguments."""
        return cls(config.model_config, config.threshold, config.include_reason, **options)

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "include_reason": self._include_reason, **self._options()}

    def _create_metric(self) -> Any:
        return getattr(load_module("deepeval.metrics"), self.CLASS)(
            threshold=self._threshold, model=self._model, include_reason=self._include_reason, **self._options()
        )

    def _prepare(self, metric: Any, test_case: Any) -> None:
        # DeepEval counts a missing verdict as good.
        metric.model.problem = lambda verdict: self._count_problem(metric, test_case, verdict)

    def _options(self) -> dict[str, Any]:
        return {}

    def _expected_verdicts(self, metric: Any, test_case: Any) -> int | None:
        """Return the required number of verdicts; None if any number is valid."""
        return None

    def _count_problem(self, metric: Any, test_case: Any, verdict: Any) -> str | None:
        verdicts: Sequence[Any] | None = getattr(verdict, "verdicts", None)
        if verdicts is None:
            return None
        wanted = self._expected_verdicts(metric, test_case)
        if wanted is None or len(verdicts) == wanted:
            return None
        return f"it holds {len(verdicts)} verdicts, but there must be {wanted}"

    def _empty_answer_result(self, inputs: Mapping[str, Any]) -> EvaluationResult | None:
        """Return a result with score 0 if the answer is empty, else None. (DeepEval would give an empty answer 1.)"""
        return None if str(inputs[EvalParam.ACTUAL_OUTPUT.value]).strip() else self._zero_result("the answer is empty")

    def _zero_result(self, reason: str) -> EvaluationResult:
        return EvaluationResult(score=0.0, reasoning=reason, metric_name=self.metric_name, threshold=self._threshold)

    def _result(self, metric: Any, test_case: Any, judge: str) -> EvaluationResult:
        if not metric.reason:
            metric.reason = self._counts_text(self._metadata(metric, test_case), float(metric.score))
        return super()._result(metric, test_case, judge)

    def _counts_text(self, result: Mapping[str, Any], score: float) -> str:
        """Return an explanation of the score by the numbers of verdicts; used if the judge gives no reason."""
        counts = ", ".join(
            f"{name.replace('_', ' ')}: {value}" for name, value in result.items() if isinstance(value, int)
        )
        return f"{self.METRIC} is {score:g} ({counts})" if counts else f"{self.METRIC} is {score:g}"


class _ContextualEvaluator(RagEvaluator):
    """Base class of metrics of the retrieved texts. Without retrieved texts, the score is 0 and no judge is called."""

    def _result_without_judge(self, inputs: Mapping[str, Any]) -> EvaluationResult | None:
        return None if _has_text(inputs[EvalParam.RETRIEVAL_CONTEXT.value]) else self._zero_result(_NOTHING_RETRIEVED)


class AnswerRelevancyEvaluator(RagEvaluator):
    """The proportion of the answer's statements that are not irrelevant to the question.

    The score is 1 if the answer makes no statements, but 0 if it is empty.
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
        """Configure the evaluator; `strict_mode` turns scores below 1 into 0. For the rest see `RagEvaluator`."""
        super().__init__(
            model_config, threshold, include_reason, timeout, retry_config, observability_config, judge=judge
        )
        self._strict_mode = strict_mode

    def _options(self) -> dict[str, Any]:
        return {"strict_mode": self._strict_mode}

    def _result_without_judge(self, inputs: Mapping[str, Any]) -> EvaluationResult | None:
        return self._empty_answer_result(inputs)

    def _expected_verdicts(self, metric: Any, test_case: Any) -> int | None:
        return len(metric.statements)

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        irrelevant = _items_by_verdict(metric.statements, metric.verdicts, "no")
        count = len(metric.statements)
        return {
            "statements_count": count,
            "relevant_statements": count - len(irrelevant),
            "irrelevant_statements": irrelevant,
        }


class FaithfulnessEvaluator(RagEvaluator):
    """The proportion of the answer's claims that the retrieved texts do not contradict.

    The score is 1 if the answer makes no claims. It is 0 if the answer is empty, or if it makes claims although nothing
    was retrieved.
    """

    METRIC = "Faithfulness"
    NEEDS_QUESTION = False
    CLASS = "FaithfulnessMetric"
    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.ACTUAL_OUTPUT}) | _RETRIEVED,
        optional=frozenset({EvalParam.INPUT}),
        uses_retrieval_context=True,
    )

    def _result_without_judge(self, inputs: Mapping[str, Any]) -> EvaluationResult | None:
        return self._empty_answer_result(inputs)

    def _expected_verdicts(self, metric: Any, test_case: Any) -> int | None:
        return len(metric.claims)

    def _result(self, metric: Any, test_case: Any, judge: str) -> EvaluationResult:
        if metric.claims and not _has_text(test_case.retrieval_context):
            # DeepEval counts claims as supported if nothing contradicts them.
            for item in metric.verdicts:
                item.verdict = "no"
            metric.score, metric.reason = 0.0, f"{_NOTHING_RETRIEVED} that could support the answer"
        return super()._result(metric, test_case, judge)

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        unsupported = _items_by_verdict(metric.claims, metric.verdicts, "no")
        return {
            "claims_count": len(metric.claims),
            "supported_claims": len(metric.claims) - len(unsupported),
            "unsupported_claims": unsupported,
        }


class ContextualRelevancyEvaluator(_ContextualEvaluator):
    """The proportion of statements in the retrieved texts that are relevant to the question; 0 without statements."""

    METRIC = "ContextualRelevancy"
    CLASS = "ContextualRelevancyMetric"
    PARAM_SPEC = ParamSpec(required=_ANSWERED | _RETRIEVED, uses_retrieval_context=True)

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        statements = [[item.verdict == "yes" for item in chunk.verdicts] for chunk in metric.verdicts_list]
        relevant = [any(chunk) for chunk in statements]
        return {
            "statements_count": sum(map(len, statements)),
            "relevant_statements": sum(map(sum, statements)),
            "relevant_chunks": sum(relevant),
            "total_chunks": len(relevant),
            "irrelevant_chunk_indices": [index for index, found in enumerate(relevant) if not found],
        }


class ContextualPrecisionEvaluator(_ContextualEvaluator):
    """Whether relevant texts are ranked first: mean precision@k over their ranks; 0 if no text is relevant."""

    METRIC = "ContextualPrecision"
    CLASS = "ContextualPrecisionMetric"
    PARAM_SPEC = ParamSpec(required=_ANSWERED | _EXPECTED | _RETRIEVED, uses_retrieval_context=True)

    def _expected_verdicts(self, metric: Any, test_case: Any) -> int | None:
        return len(test_case.retrieval_context)

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        relevant = [item.verdict == "yes" for item in metric.verdicts]
        return {"precision_at_k": {str(k): sum(relevant[:k]) / k for k in range(1, len(relevant) + 1)}}


class ContextualRecallEvaluator(_ContextualEvaluator):
    """The proportion of the expected answer's sentences that the retrieved texts support; 0 if it has no sentences."""

    METRIC = "ContextualRecall"
    CLASS = "ContextualRecallMetric"
    PARAM_SPEC = ParamSpec(required=_ANSWERED | _EXPECTED | _RETRIEVED, uses_retrieval_context=True)

    def _count_problem(self, metric: Any, test_case: Any, verdict: Any) -> str | None:
        # The judge counts the sentences. A text has at least one, and few that are very short.
        verdicts: Sequence[Any] | None = getattr(verdict, "verdicts", None)
        text = test_case.expected_output.strip()
        most = _SHORT_SENTENCES + len(text) // _SENTENCE_LENGTH
        if verdicts is None or (verdicts and len(verdicts) <= most) or not text:
            return None
        number = "no" if not verdicts else str(len(verdicts))
        return f"it holds {number} verdicts, but there must be one for every sentence"

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        missing = [item.reason for item in metric.verdicts if item.verdict != "yes"]
        return {
            "expected_facts": len(metric.verdicts),
            "retrieved_facts": len(metric.verdicts) - len(missing),
            "missing_facts": missing,
        }


def _has_text(context: Any) -> bool:
    return any(str(text).strip() for text in ([context] if isinstance(context, str) else context))


def _items_by_verdict(ratings: list[str], verdicts: list[Any], verdict: str) -> list[str]:
    return [item for item, judged in zip(ratings, verdicts, strict=True) if judged.verdict == verdict]
