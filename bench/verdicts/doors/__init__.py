"""Scenarios over the doors of our own program, as data, and whether its exit codes and words are right."""
