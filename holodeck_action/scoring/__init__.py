"""Evaluates answers with metrics: judges, panels, reuse of earlier verdicts, evaluations."""
