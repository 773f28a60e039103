"""The manifest of the extension `gllm`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

_HERE = "holodeck_action.extensions.gllm"
_NAMES = {
    "gllm_evals.constant": {
        "AggregationMethod": f"{_HERE}.judging:AggregationMethod",
        "DefaultValues": f"{_HERE}.judging:DefaultValues",
    },
    "gllm_evals.evaluator": {
        "BaseEvaluator": f"{_HERE}.base:BaseEvaluator",
        **{
            name: f"{_HERE}.evaluators:{name}"
            for name in (
                "AgentEvaluator",
                "BaseGenerationEvaluator",
                "ClassicalRetrievalEvaluator",
                "CompositeEvaluator",
                "GEvalGenerationEvaluator",
                "LMBasedRetrievalEvaluator",
                "QTEvaluator",
                "SummarizationEvaluator",
            )
        },
    },
    "gllm_evals.metrics": {
        "BaseMetric": f"{_HERE}.metric_bases:BaseMetric",
        **{
            name: f"{_HERE}.metrics:{name}"
            for name in (
                "ClassicalRetrievalMetric",
                "DeepEvalContextualPrecisionMetric",
                "DeepEvalContextualRecallMetric",
                "DeepEvalToolCorrectnessMetric",
                "GEvalCoherenceMetric",
                "GEvalCompletenessMetric",
                "GEvalConsistencyMetric",
                "GEvalFluencyMetric",
                "GEvalGroundednessMetric",
                "GEvalRedundancyMetric",
                "GEvalRefusalMetric",
                "GEvalRelevanceMetric",
                "LangChainAgentTrajectoryAccuracyMetric",
            )
        },
        "MetricsAggregator": f"{_HERE}.base:MetricsAggregator",
    },
    "gllm_evals.metrics.tool_use.deepeval_tool_correctness": {
        "DeepEvalToolCorrectnessMetric": f"{_HERE}.metrics:DeepEvalToolCorrectnessMetric",
    },
    "gllm_evals.metrics.tool_use.langchain_agent_trajectory_accuracy": {
        "LangChainAgentTrajectoryAccuracyMetric": f"{_HERE}.metrics:LangChainAgentTrajectoryAccuracyMetric",
    },
    "gllm_evals.types": {
        name: f"{_HERE}.inputs:{name}" for name in ("AgentData", "MetricInput", "RAGData", "RetrievalData")
    },
}

EXTENSION = Extension(
    name="gllm",
    help="The evaluators of gllm-evals under their original names.",
    needs=(
        "azure",
        "deepeval",
        "presets",
    ),
    names=_NAMES,
)
