"""Adapters for frameworks' agents; they run in the worker process, with the project's Python."""
