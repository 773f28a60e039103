"""Codex: `codex exec --json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter, Launch
from holodeck_action.extensions.agent_programs.trajectory import (
    COMPLETED,
    NO_END,
    Call,
    Ended,
    Event,
    Tokens,
    Trajectory,
    count_at,
    first_line,
    items_at,
    mapping_at,
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
    shell = "command_execution"
    way = "npm install -g @openai/codex"
    tells_version = True
    totals_tokens = True

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

    def environ(self, launch: Launch) -> Mapping[str, str]:
        """Return variables in addition to the common ones."""
        # A folder that the program demands to exist, and not to be below TMPDIR.
        return {"CODEX_HOME": str(launch.home / ".codex")}

    def scripted(self, address: str, key: str) -> Mapping[str, str]:
        """Return the variables with which the program calls another server."""
        return {"OPENAI_BASE_URL": f"{address}/v1", "OPENAI_API_KEY": key}

    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that a stream tells."""
        items = [mapping_at(event, "item") for event in events if event.get("type") == "item.completed"]
        texts = [text_at(item, "text") or "" for item in items if item.get("type") == "agent_message"]
        usage: Event = next(
            (mapping_at(event, "usage") for event in events if event.get("type") == "turn.completed"), {}
        )
        tokens = Tokens(
            count_at(usage, "input_tokens"),
            count_at(usage, "cached_input_tokens"),
            count_at(usage, "output_tokens"),
            count_at(usage, "reasoning_output_tokens"),
        )
        started: Event = next((event for event in events if event.get("type") == "thread.started"), {})
        return Trajectory(
            text=texts[-1] if texts else "",
            ended=_ended(events, texts[-1] if texts else ""),
            calls=tuple(_calls(events)),
            session=text_at(started, "thread_id"),
            tokens=tokens if tokens.prompt else None,
        )


def _ended(events: Sequence[Event], text: str) -> Ended:
    last: Event = events[-1] if events else {}
    if last.get("type") == "turn.failed":
        said = first_line(text_at(last, "error", "message") or "")
        if "max_output_tokens" in said:
            return Ended("cut_off", f"stopped at its token limit: {said}")
        return Ended("infrastructure", f"ended with an error: {said or 'turn.failed'}")
    if last.get("type") != "turn.completed":
        return NO_END
    return COMPLETED if text.strip() else Ended("infrastructure", "ended without a last message")


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
                texts = [text_at(part, "text") or "" for part in items_at(item, "result", "content")]
                yield Call(name, mapping_at(item, "arguments"), "\n".join(texts) if result else None, error)
            case "command_execution" if item.get("exit_code") is not None:
                code, said = count_at(item, "exit_code"), text_at(item, "aggregated_output") or ""
                code = code or (0 if item.get("exit_code") == 0 else 1)
                error = f"exit code {item.get('exit_code')}" if item.get("exit_code") != 0 else None
                yield Call("command_execution", args, said, error, code)
            case kind:
                error = "failed" if item.get("status") == "failed" else None
                yield Call(str(kind), args, None, error)
