"""Conversations of production, read from traces."""
