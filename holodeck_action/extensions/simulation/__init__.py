"""Users that a model plays in conversations with the agent."""
