"""Comparison of two records: pairs of cases, differences, and statistical tests."""
