"""Coding-agent programs that work in a folder: the target `agent`."""
