"""Tools of MCP servers for the suite's own model."""
