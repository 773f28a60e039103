"""Simulated users: a model plays the user in conversations with the agent."""
