"""Metrics of tool calls: which were made, with what, in what order."""
