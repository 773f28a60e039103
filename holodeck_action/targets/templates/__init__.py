"""Templates and paths that say what is sent to a target and read of its reply."""
