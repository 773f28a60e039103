"""Recorded model calls: what is kept of each, and how it is found again."""
