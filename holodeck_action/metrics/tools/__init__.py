"""Metrics of tool calls: their names, arguments and order."""
