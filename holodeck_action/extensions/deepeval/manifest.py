"""The manifest of the extension `deepeval`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Library, Metric

_HERE = "holodeck_action.extensions.deepeval"
_NAMES = {
    "holodeck_action.metrics": {
        "DeepEval": f"{_HERE}.class_metric:DeepEvalClassMetric",
        "DeepEvalToolCorrectness": f"{_HERE}.tool_correctness:DeepEvalToolCorrectnessMetric",
        "GEval": f"{_HERE}.metrics_geval:GEvalMetric",
        "Rag": f"{_HERE}.metrics_rag:RagMetric",
    },
    "holodeck.lib.evaluators.deepeval": {
        **{
            name: f"{_HERE}.rag:{name}"
            for name in (
                "AnswerRelevancyEvaluator",
                "ContextualPrecisionEvaluator",
                "ContextualRecallEvaluator",
                "ContextualRelevancyEvaluator",
                "FaithfulnessEvaluator",
            )
        },
        "DeepEvalBaseEvaluator": f"{_HERE}.base:DeepEvalBaseEvaluator",
        "DeepEvalModelConfig": f"{_HERE}.config:DeepEvalModelConfig",
        **{name: f"{_HERE}.entities:{name}" for name in ("EvaluationInput", "GEvalConfig", "RAGMetricConfig")},
        "GEvalEvaluator": f"{_HERE}.geval:GEvalEvaluator",
    },
    "holodeck.lib.evaluators.deepeval.answer_relevancy": {
        "AnswerRelevancyEvaluator": f"{_HERE}.rag:AnswerRelevancyEvaluator",
    },
    "holodeck.lib.evaluators.deepeval.base": {
        "DeepEvalBaseEvaluator": f"{_HERE}.base:DeepEvalBaseEvaluator",
    },
    "holodeck.lib.evaluators.deepeval.config": {
        "DeepEvalModelConfig": f"{_HERE}.config:DeepEvalModelConfig",
        "GEvalConfig": f"{_HERE}.entities:GEvalConfig",
        "RAGMetricConfig": f"{_HERE}.entities:RAGMetricConfig",
    },
    "holodeck.lib.evaluators.deepeval.contextual_precision": {
        "ContextualPrecisionEvaluator": f"{_HERE}.rag:ContextualPrecisionEvaluator",
    },
    "holodeck.lib.evaluators.deepeval.contextual_recall": {
        "ContextualRecallEvaluator": f"{_HERE}.rag:ContextualRecallEvaluator",
    },
    "holodeck.lib.evaluators.deepeval.contextual_relevancy": {
        "ContextualRelevancyEvaluator": f"{_HERE}.rag:ContextualRelevancyEvaluator",
    },
    "holodeck.lib.evaluators.deepeval.faithfulness": {
        "FaithfulnessEvaluator": f"{_HERE}.rag:FaithfulnessEvaluator",
    },
    "holodeck.lib.evaluators.deepeval.geval": {
        "GEvalEvaluator": f"{_HERE}.geval:GEvalEvaluator",
    },
    "holodeck.models.evaluation": {
        "GEvalMetric": f"{_HERE}.metrics_geval:GEvalMetric",
        "RAGMetric": f"{_HERE}.metrics_rag:RagMetric",
    },
}

EXTENSION = Extension(
    name="deepeval",
    help="DeepEval's metrics, graded by the suite's judges.",
    needs=("tracing",),
    metrics=(
        Metric(type="geval", to="holodeck_action.extensions.deepeval.metrics_geval:GEvalMetric"),
        Metric(type="deepeval", to="holodeck_action.extensions.deepeval.class_metric:DeepEvalClassMetric"),
        Metric(type="rag", to="holodeck_action.extensions.deepeval.metrics_rag:RagMetric"),
        Metric(
            type="deepeval_tool_correctness",
            to="holodeck_action.extensions.deepeval.tool_correctness:DeepEvalToolCorrectnessMetric",
        ),
    ),
    libraries=(
        Library(
            name="deepeval",
            measuring="holodeck_action.extensions.deepeval.measuring",
            imports="deepeval",
            package="deepeval",
            extra="judges",
        ),
    ),
    names=_NAMES,
)
