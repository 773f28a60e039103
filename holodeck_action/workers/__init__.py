"""Runs user code in worker processes that can be killed."""
