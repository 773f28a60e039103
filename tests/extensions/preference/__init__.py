"""Two answers side by side."""
