"""The suite: agent.yaml and the policy file as frozen values."""
