"""Agents of frameworks: adapters of what they return, and readers of the spans that they send."""
