"""Traces of a run: what was done when, below what, for OpenTelemetry (docs/observability.md)."""
