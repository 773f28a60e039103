"""Evaluate agent suites and decide whether a change may be merged."""

__version__ = "0.1.0"
