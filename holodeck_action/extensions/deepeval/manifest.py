"""What the extension `deepeval` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Library, Metric

EXTENSION = Extension(
    name="deepeval",
    help="DeepEval's metrics, on our judges.",
    needs=("tracing",),
    metrics=(
        Metric(type="geval", to="holodeck_action.extensions.deepeval.metrics_geval:GEvalMetric"),
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
)
