"""The manifest of the extension `mcp`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Tool

EXTENSION = Extension(
    name="mcp",
    help="Tools of MCP servers for the suite's own model.",
    tools=(
        Tool(
            type="mcp",
            build="holodeck_action.extensions.mcp.mcp_tools:build",
            secrets="holodeck_action.extensions.mcp.mcp_settings:server_secrets",
            package="mcp",
            extra="agents",
        ),
    ),
)
