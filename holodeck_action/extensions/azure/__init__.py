"""Azure AI Evaluation's metrics on our judges; legacy in HoloDeck's format."""
