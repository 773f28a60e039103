"""The manifest of the extension `preference`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Metric, PairFunctions

_HERE = "holodeck_action.extensions.preference"

EXTENSION = Extension(
    name="preference",
    help="Two answers side by side: a judge says which one is better.",
    metrics=(Metric(type="preference", to=f"{_HERE}.metric:PreferenceMetric"),),
    pairs=PairFunctions(
        judge=f"{_HERE}.judging:judge_pairs",
        skip=f"{_HERE}.evaluations:skip_pairs",
        summarise=f"{_HERE}.summary:summarise",
    ),
)
