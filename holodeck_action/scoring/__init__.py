"""Metrics run over answers: judges, panels, reuse of earlier verdicts, evaluations."""
