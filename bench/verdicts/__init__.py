"""Scenarios of evaluation jobs, given to several programs, and whether each program's exit code is right."""
