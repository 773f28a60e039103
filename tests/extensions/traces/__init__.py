"""Conversations of production."""
