"""The evaluators and metrics of gllm-evals' Python API, built on the metrics of this package."""
