"""opencode: `opencode run --format json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from holodeck_action.extensions.agent_programs.adapters.adapter import Launch
from holodeck_action.extensions.agent_programs.adapters.providers import JOB, ProvidersAdapter
from holodeck_action.extensions.agent_programs.trajectory import (
    NO_END,
    Call,
    Ended,
    Event,
    Trajectory,
    answered,
    cut_off,
    failed,
    first_line,
    joined_text,
    last_of,
    mapping_at,
    moment_at,
    of_type,
    sum_tokens,
    text_at,
    value_at,
)


class Opencode(ProvidersAdapter):
    """opencode. Its stream has no last event: only the reason of the last step says that it has finished."""

    name = "opencode"
    program = "opencode"
    way = "npm install -g opencode-ai"
    flags = ("run", "--format", "json", "--auto", "--title", "trial")
    session_flag = "--session"
    switches: ClassVar[Mapping[str, str]] = {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }
    shell = "bash"
    tells_version = True
    # Without it, skills cannot be used, and files not searched.
    needs = ("rg",)
    skill_tools = ("skill",)

    def environ(self, launch: Launch) -> Mapping[str, str]:
        """Return variables in addition to the common ones."""
        model, settings = self.own_model(launch), dict[str, Any](share="disabled")
        if not model:
            return {**self.switches, "OPENCODE_CONFIG_CONTENT": json.dumps(settings)}
        server = {"baseURL": launch.environ["OPENAI_BASE_URL"], "apiKey": "{env:OPENAI_API_KEY}"}
        own = {"npm": "@ai-sdk/openai-compatible", "options": server, "models": {model: {}}}
        settings["provider"] = {JOB: own}
        offline = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_CONFIG_CONTENT": json.dumps(settings)}
        return {**self.switches, **offline}

    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that a stream tells."""
        steps = [mapping_at(event, "part") for event in of_type(events, "step_finish")]
        last: Event = steps[-1] if steps else {}
        texts = [mapping_at(event, "part") for event in of_type(events, "text")]
        text = joined_text([part for part in texts if part.get("messageID") == last.get("messageID")])
        costs = [step.get("cost") for step in steps]
        return Trajectory(
            text=text,
            ended=_ended(events, text),
            calls=tuple(_calls(events)),
            session=next((text_at(event, "sessionID") for event in events), None),
            tokens=sum_tokens(
                [mapping_at(step, "tokens") for step in steps],
                ["input", "cache.read", "cache.write"],
                "cache.read",
                ["output", "reasoning"],
                "reasoning",
            ),
            cost_usd=sum(cost for cost in costs if isinstance(cost, int | float)),
        )


def _ended(events: Sequence[Event], text: str) -> Ended:
    reason = text_at(last_of(events, "step_finish"), "part", "reason")
    for error in (mapping_at(event, "error") for event in of_type(events, "error")):
        said, name = text_at(error, "data", "message"), str(error.get("name"))
        if name == "ContentFilterError":
            return Ended("agent", f"was refused by the model's provider: {said}")
        return failed(said, name)
    if reason == "length":
        return cut_off()
    return answered(text) if reason == "stop" else NO_END


def _calls(events: Sequence[Event]) -> Iterator[Call]:
    for part in (mapping_at(event, "part") for event in of_type(events, "tool_use")):
        error, code = text_at(part, "state", "error"), value_at(part, "state", "metadata", "exit")
        yield Call(
            text_at(part, "tool") or "",
            mapping_at(part, "state", "input"),
            text_at(part, "state", "output") or error,
            None if error is None else first_line(error),
            code if isinstance(code, int) else None,
            moment_at(part, "state", "time", "start"),
            moment_at(part, "state", "time", "end"),
        )
