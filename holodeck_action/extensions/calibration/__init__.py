"""Comparison of a judge with human labels."""
