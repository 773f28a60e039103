"""Serves the pages of runs on this machine for `view`."""
