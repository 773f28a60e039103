"""YAML with the place of each value."""
