"""Metrics graded by judges: our own questions, verdicts, panels and votes."""
