"""Tools that the suite's own model may call."""
