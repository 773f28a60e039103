"""The evaluators of gllm-evals as Python has them: thin constructors over the metrics of this package."""
