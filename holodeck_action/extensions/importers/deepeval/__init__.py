"""Imports from DeepEval: test files, which are read without running them, and datasets."""
