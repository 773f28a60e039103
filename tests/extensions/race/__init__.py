"""Races of variants."""
