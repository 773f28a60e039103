"""What the extension `azure` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Library, Metric

EXTENSION = Extension(
    name="azure",
    help="Azure AI Evaluation's metrics, on our judges.",
    metrics=tuple(
        Metric(type="standard", name=name, to="holodeck_action.extensions.azure.standard:AzureMetric")
        for name in ("groundedness", "relevance", "coherence", "fluency", "similarity")
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
)
