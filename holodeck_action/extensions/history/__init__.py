"""Runs kept over time: where they are stored, what is read of them, and how a trend is told."""
