"""Pairwise comparison: a judge compares two answers to the same question."""
