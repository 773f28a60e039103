"""Tools of MCP servers, which the model of a suite can call."""
