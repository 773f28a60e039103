"""Runs suites: settings, checks, the plan and its price, the trials, and the record."""
