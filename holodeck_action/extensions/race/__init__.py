"""Races several variants of a suite, and drops those that cannot be the best."""
