"""OpenTelemetry traces of a run (docs/observability.md)."""
