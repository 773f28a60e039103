"""Limits of model calls: rate limits of accounts, pauses of clocks, and budgets."""
