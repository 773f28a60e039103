"""The suite's own model as the target: its conversation and its tools."""
