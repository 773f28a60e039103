"""The manifest of the extension `presets`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Metric

_HERE = "holodeck_action.extensions.presets"
_NAMES = {
    "holodeck_action.metrics": {
        "Agent": f"{_HERE}.agent:AgentMetric",
        "Generation": f"{_HERE}.generation:GenerationMetric",
        "LmRetrieval": f"{_HERE}.lm_retrieval:LmRetrievalMetric",
        "QueryTransformation": f"{_HERE}.query_transformation:QueryTransformationMetric",
        "Summarization": f"{_HERE}.summarization:SummarizationMetric",
    },
}

EXTENSION = Extension(
    name="presets",
    help="Preset evaluators: named sets of judged metrics.",
    needs=("deepeval",),
    metrics=(
        Metric(type="lm_retrieval", to="holodeck_action.extensions.presets.lm_retrieval:LmRetrievalMetric"),
        Metric(
            type="query_transformation",
            to="holodeck_action.extensions.presets.query_transformation:QueryTransformationMetric",
        ),
        Metric(type="generation", to="holodeck_action.extensions.presets.generation:GenerationMetric"),
        Metric(type="summarization", to="holodeck_action.extensions.presets.summarization:SummarizationMetric"),
        Metric(type="agent", to="holodeck_action.extensions.presets.agent:AgentMetric"),
    ),
    names=_NAMES,
)
