"""Stored results of other programs."""
