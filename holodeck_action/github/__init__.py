"""Where it is posted."""
