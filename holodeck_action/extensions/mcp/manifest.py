"""What the extension `mcp` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="mcp",
    help="Tools of MCP servers for the suite's own model.",
)
