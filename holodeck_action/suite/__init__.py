"""Suites: agent.yaml, the policy file and the cases, loaded and validated as frozen values."""
