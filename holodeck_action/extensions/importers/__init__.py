"""Import of test suites from promptfoo and DeepEval."""
