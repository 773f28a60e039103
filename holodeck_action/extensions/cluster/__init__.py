"""Runs trials on the workers of a Dask cluster."""
