"""Tools with which the suite's own model searches documents."""
