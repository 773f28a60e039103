"""Imports from Inspect: tasks over a dataset in a file."""
