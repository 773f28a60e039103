"""Codex: `codex exec --json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from holodeck_action.extensions.agent_programs.adapters.adapter import OPENAI_SERVER, Adapter, Launch
from holodeck_action.extensions.agent_programs.trajectory import (
    NO_END,
    Call,
    Ended,
    Event,
    Trajectory,
    answered,
    count_at,
    cut_off,
    failed,
    first_line,
    joined_text,
    last_of,
    mapping_at,
    of_type,
    sum_tokens,
    text_at,
    value_at,
)

_SETTINGS = {
    "check_for_update_on_startup": "false",
    "analytics.enabled": "false",
    "history.persistence": '"none"',
    # Its own filter hides each variable with KEY or TOKEN in its name, also those of the target's `env`.
    "shell_environment_policy.exclude": '["OPENAI_API_KEY", "CODEX_API_KEY"]',
}
_PROVIDER = "job"
_NO_CALLS = ("agent_message", "error", "reasoning", "todo_list")
_NOT_ARGUMENTS = ("id", "type", "status", "aggregated_output", "exit_code", "result", "error")


class Codex(Adapter):
    """Codex."""

    name = "codex"
    program = "codex"
    passes = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY")
    way = "npm install -g @openai/codex"
    # A folder that the program demands to exist, and not to be below TMPDIR.
    folder_variable = "CODEX_HOME"
    server = OPENAI_SERVER
    shell = "command_execution"
    tells_version = True
    totals = ("tokens",)

    def arguments(self, launch: Launch) -> Sequence[str]:
        """Return the arguments after the program's name."""
        address = launch.environ.get("OPENAI_BASE_URL")
        provider = f"model_providers.{_PROVIDER}"
        own = {
            "model_provider": json.dumps(_PROVIDER),
            f"{provider}.name": json.dumps(_PROVIDER),
            f"{provider}.base_url": json.dumps(address),
            f"{provider}.env_key": json.dumps("OPENAI_API_KEY"),
            f"{provider}.wire_api": json.dumps("responses"),
        }
        given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in launch.options.items()}
        settings = {**_SETTINGS, **(own if address else {}), **given}
        return [
            *("exec", *(("resume", launch.session) if launch.session else ())),
            *("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
            *(("--model", launch.model) if launch.model else ()),
            *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
        ]

    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that a stream tells."""
        items = [mapping_at(event, "item") for event in of_type(events, "item.completed")]
        texts = [text_at(item, "text") or "" for item in of_type(items, "agent_message")]
        tokens = sum_tokens(
            [mapping_at(event, "usage") for event in of_type(events, "turn.completed")[:1]],
            ["input_tokens"],
            "cached_input_tokens",
            ["output_tokens"],
            "reasoning_output_tokens",
        )
        text = texts[-1] if texts else ""
        return Trajectory(
            text=text,
            ended=_ended(events, text),
            calls=tuple(_calls(events)),
            session=next((text_at(event, "thread_id") for event in of_type(events, "thread.started")), None),
            tokens=tokens,
        )


def _ended(events: Sequence[Event], text: str) -> Ended:
    said = text_at(last_of(events, "turn.failed"), "error", "message") or ""
    if "max_output_tokens" in said:
        return cut_off(first_line(said))
    if last_of(events, "turn.failed") is not None:
        return failed(said, "turn.failed")
    return NO_END if last_of(events, "turn.completed") is None else answered(text)


def _calls(events: Sequence[Event]) -> Iterator[Call]:
    """Yield the calls in the order in which they began; a call without an end has no result."""
    latest: dict[str, Event] = {}
    for event in events:
        item = mapping_at(event, "item")
        if str(event.get("type")).startswith("item.") and item.get("type") not in _NO_CALLS:
            latest[text_at(item, "id") or ""] = item
    for item in latest.values():
        args = {name: value for name, value in item.items() if name not in _NOT_ARGUMENTS}
        match item.get("type"):
            case "mcp_tool_call":
                name = f"{item.get('server')}.{item.get('tool')}"
                error = text_at(item, "error", "message")
                result = value_at(item, "result", "content")
                yield Call(name, mapping_at(item, "arguments"), joined_text(result) if result else None, error)
            case "command_execution" if item.get("exit_code") is not None:
                code, said = count_at(item, "exit_code"), text_at(item, "aggregated_output") or ""
                code = code or (0 if item.get("exit_code") == 0 else 1)
                error = f"exit code {item.get('exit_code')}" if item.get("exit_code") != 0 else None
                yield Call("command_execution", args, said, error, code)
            case kind:
                error = "failed" if item.get("status") == "failed" else None
                yield Call(str(kind), args, None, error)
