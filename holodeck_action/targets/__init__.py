"""Targets: the agents that answer cases, behind one protocol."""
