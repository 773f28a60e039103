"""Recomputes text scores with the libraries that define the metrics."""
