"""Preset evaluators: named sets of metrics that are computed together and combined into one score."""
