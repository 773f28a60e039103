"""Suites of other programs, read and written as ours."""
