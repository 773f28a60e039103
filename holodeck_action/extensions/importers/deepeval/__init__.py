"""DeepEval: test files, read without running them, and datasets."""
