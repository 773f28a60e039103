"""Evaluates conversations recorded in production, which are read from traces."""
