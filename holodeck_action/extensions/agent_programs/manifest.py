"""The manifest of the extension `agent_programs`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Metric, Target

_HERE = "holodeck_action.extensions.agent_programs"

EXTENSION = Extension(
    name="agent_programs",
    help="Coding-agent programs that work in a folder, and checks of what they left there.",
    metrics=(
        *(
            Metric(name, f"{_HERE}.checks:{name.title()}Metric")
            for name in ("file", "data", "changed", "command", "called", "skill")
        ),
        Metric("workspace_text", f"{_HERE}.texts:WorkspaceTextMetric"),
    ),
    targets=(Target("agent", settings=f"{_HERE}.settings:AgentTarget", build=f"{_HERE}.building:build_agent"),),
)
