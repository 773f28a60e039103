"""The suite's own model as the target: its conversation, and the tools that it may call."""
