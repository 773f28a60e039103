"""Agents of frameworks as callables, inside the worker process and under the Python of the project."""
