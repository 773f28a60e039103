"""What is asked: agent.yaml and the policy file as frozen values."""
