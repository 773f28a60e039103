"""The manifest of the extension `azure`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Library, Metric

_HERE = "holodeck_action.extensions.azure"
_NAMES = {
    "holodeck_action.metrics": {
        "Azure": f"{_HERE}.standard:AzureMetric",
        "AzureEvaluator": f"{_HERE}.class_metric:AzureClassMetric",
    },
    "holodeck.lib.evaluators.azure_ai": {
        "AzureAIEvaluator": f"{_HERE}.base:AzureAIEvaluator",
        "ModelConfig": f"{_HERE}.base:ModelConfig",
        **{
            name: f"{_HERE}.metrics:{name}"
            for name in (
                "CoherenceEvaluator",
                "FluencyEvaluator",
                "GroundednessEvaluator",
                "RelevanceEvaluator",
                "SimilarityEvaluator",
            )
        },
    },
}

EXTENSION = Extension(
    name="azure",
    help="Azure AI Evaluation's metrics, graded by the suite's judges.",
    metrics=(
        *(
            Metric(type="standard", name=name, to="holodeck_action.extensions.azure.standard:AzureMetric")
            for name in ("groundedness", "relevance", "coherence", "fluency", "similarity")
        ),
        Metric(type="azure", to="holodeck_action.extensions.azure.class_metric:AzureClassMetric"),
    ),
    libraries=(
        Library(
            name="azure",
            measuring="holodeck_action.extensions.azure.measuring",
            imports="azure.ai.evaluation",
            package="azure-ai-evaluation",
            extra="azure",
        ),
    ),
    names=_NAMES,
)
