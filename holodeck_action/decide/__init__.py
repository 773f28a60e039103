"""Decisions: gates, verdict, trials and statistics, as pure functions of a record."""
