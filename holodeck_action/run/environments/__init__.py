"""The Python environments of a project's code."""
