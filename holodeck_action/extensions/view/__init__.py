"""The page of a run, served on this machine."""
