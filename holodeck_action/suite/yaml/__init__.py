"""YAML with the position of each value."""
