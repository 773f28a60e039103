"""Tools of MCP servers, which the suite's own model can call."""
