"""Qwen Code: `qwen --output-format stream-json`, whose stream is almost that of Claude Code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from holodeck_action.extensions.agent_programs.adapters.adapter import OPENAI_SERVER, Launch
from holodeck_action.extensions.agent_programs.adapters.claude import Claude
from holodeck_action.extensions.agent_programs.trajectory import COMPLETED, Ended, Event, cut_off, value_at
from holodeck_action.text.lazy_patterns import lazy_pattern

_SETTINGS = {
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    # It calls the model after the answer.
    "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
    # With a limit of the workspace's settings, it does not report that an answer was cut.
    "model": {"generationConfig": {"samplingParams": {"max_tokens": None}}},
}


class Qwen(Claude):
    """Qwen Code."""

    name = "qwen"
    program = "qwen"
    passes = tuple(OPENAI_SERVER)
    way = "npm install -g @qwen-code/qwen-code"
    flags = ("--output-format", "stream-json", "--auth-type", "openai", "--approval-mode", "yolo")
    folder_variable = "QWEN_HOME"
    switches: ClassVar[Mapping[str, str]] = {"QWEN_CODE_MAX_OUTPUT_TOKENS": ""}
    server = OPENAI_SERVER
    shell = "run_shell_command"
    exit_words = lazy_pattern(r"(?sm).*^Exit Code: (\d+)$")
    totals = ("tokens",)
    scripted_model = "scripted"
    prompt_tokens = ("input_tokens",)
    reasons = (None,)

    def environ(self, launch: Launch) -> Mapping[str, str]:
        """Return variables in addition to the common ones."""
        # They are stronger than those of the workspace.
        file = launch.home / f".{self.name}" / "system.json"
        return {**super().environ(launch), "QWEN_CODE_SYSTEM_SETTINGS_PATH": str(file)}

    def settings(self, launch: Launch) -> Mapping[str, Any]:
        """Return the settings of the system."""
        return {"system.json": _SETTINGS}

    def ended(self, events: Sequence[Event], last: Event) -> Ended:
        """Return how a turn ended; an answer in several parts may have been cut at the end of the last one."""
        found = super().ended(events, last)
        work = [at for at, event in enumerate(events) if event.get("type") == "user"]
        after = events[work[-1] if work else 0 :]
        if found == COMPLETED and any(value_at(event, "data", "preserveText") is True for event in after):
            return cut_off("whether its continued answer is whole is unknown")
        return found
