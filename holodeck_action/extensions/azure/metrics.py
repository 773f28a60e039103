"""Groundedness, relevance, coherence, fluency and similarity (HoloDeck evaluation API, Azure AI metrics)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.extensions.azure.base import AzureAIEvaluator, join_texts
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec

_ANSWERED = frozenset({EvalParam.QUERY, EvalParam.RESPONSE})
_NO_CONTEXT = "context or retrieval_context"


class GroundednessEvaluator(AzureAIEvaluator):
    """Whether the context supports the answer: 1 to 5, scaled to 0..1.

    The context is the text of the case's files, or else the retrieved texts. If there is a query, Azure AI Evaluation
    uses another prompt, which usually grades better.
    """

    METRIC = "groundedness"
    CLASS = "GroundednessEvaluator"
    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.RESPONSE, EvalParam.CONTEXT}),
        optional=frozenset({EvalParam.QUERY, EvalParam.RETRIEVAL_CONTEXT}),
        uses_context=True,
        uses_retrieval_context=True,
    )
    JUDGE_INPUTS = ("query", "context", "response")

    def resolve(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Rename the inputs for Azure AI Evaluation; if there is no context, use the retrieved texts.

        Raises:
            EvaluationError: a required input is missing; a blank context counts as missing.
        """
        for name in (EvalParam.CONTEXT, EvalParam.RETRIEVAL_CONTEXT):
            value = inputs.get(name.value)
            if value is not None and join_texts(value).strip():
                return super().resolve({**inputs, EvalParam.CONTEXT.value: join_texts(value)})
        # Report other missing inputs first.
        super().resolve({**inputs, EvalParam.CONTEXT.value: ""})
        raise EvaluationError(
            f"{self.name} needs {_NO_CONTEXT}, which was not given",
            code="missing_input",
            context={"parameter": _NO_CONTEXT},
        )


class RelevanceEvaluator(AzureAIEvaluator):
    """How well the answer addresses the query: 1 to 5, scaled to 0..1.

    A context is accepted, as HoloDeck documents, but the prompt of Azure AI Evaluation does not use it.
    """

    METRIC = "relevance"
    CLASS = "RelevanceEvaluator"
    PARAM_SPEC = ParamSpec(required=_ANSWERED, optional=frozenset({EvalParam.CONTEXT}))
    JUDGE_INPUTS = ("query", "response")


class CoherenceEvaluator(AzureAIEvaluator):
    """How logically the answer's ideas connect: 1 to 5, scaled to 0..1."""

    METRIC = "coherence"
    CLASS = "CoherenceEvaluator"
    PARAM_SPEC = ParamSpec(required=_ANSWERED)
    JUDGE_INPUTS = ("query", "response")


class FluencyEvaluator(AzureAIEvaluator):
    """How well the answer is written: 1 to 5, scaled to 0..1; the judge does not see the query."""

    METRIC = "fluency"
    CLASS = "FluencyEvaluator"
    PARAM_SPEC = ParamSpec(required=_ANSWERED)
    JUDGE_INPUTS = ("response",)


class SimilarityEvaluator(AzureAIEvaluator):
    """How close the answer is in meaning to the ground truth: 1 to 5, scaled to 0..1."""

    METRIC = "similarity"
    CLASS = "SimilarityEvaluator"
    PARAM_SPEC = ParamSpec(required=_ANSWERED | {EvalParam.GROUND_TRUTH})
    JUDGE_INPUTS = ("query", "ground_truth", "response")


EVALUATORS: Mapping[str, type[AzureAIEvaluator]] = {
    kind.METRIC: kind
    for kind in (GroundednessEvaluator, RelevanceEvaluator, CoherenceEvaluator, FluencyEvaluator, SimilarityEvaluator)
}
"""The evaluator classes by the metric's name in a suite."""
