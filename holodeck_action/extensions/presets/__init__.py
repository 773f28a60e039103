"""Preset evaluators: named sets of metrics that are graded together and aggregated."""
