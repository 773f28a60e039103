"""The programs that are known by name."""

from __future__ import annotations

from collections.abc import Mapping

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter
from holodeck_action.extensions.agent_programs.adapters.claude import Claude
from holodeck_action.extensions.agent_programs.adapters.codex import Codex
from holodeck_action.extensions.agent_programs.adapters.copilot import Copilot
from holodeck_action.extensions.agent_programs.adapters.gemini import Gemini
from holodeck_action.extensions.agent_programs.adapters.opencode import Opencode
from holodeck_action.extensions.agent_programs.adapters.pi import Pi
from holodeck_action.extensions.agent_programs.adapters.qwen import Qwen

ADAPTERS: Mapping[str, type[Adapter]] = {
    made.name: made for made in (Claude, Codex, Copilot, Gemini, Opencode, Pi, Qwen)
}
"""The adapters by the value of `agent`."""
