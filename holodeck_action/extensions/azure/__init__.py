"""Metrics of Azure AI Evaluation, graded by the suite's judges; deprecated in HoloDeck's format."""
