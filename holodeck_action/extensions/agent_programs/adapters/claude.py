"""Claude Code: `claude -p --output-format stream-json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter, Launch, written_options
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
from holodeck_action.suite.model.named_models import NAMED

_EXIT = "Exit code "


class Claude(Adapter):
    """Claude Code."""

    name = "claude"
    program = "claude"
    passes = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN")
    shell = "Bash"
    way = "npm install -g @anthropic-ai/claude-code"
    skill_tools = ("skill",)
    scripted_model = NAMED["anthropic"][0]

    def arguments(self, launch: Launch) -> Sequence[str]:
        """Return the arguments after the program's name."""
        return [
            *("-p", "--output-format", "stream-json", "--verbose"),
            *("--permission-mode", "bypassPermissions", "--strict-mcp-config"),
            *(("--model", launch.model) if launch.model else ()),
            *(("--resume", launch.session) if launch.session else ()),
            *written_options(launch.options),
        ]

    def environ(self, launch: Launch) -> Mapping[str, str]:
        """Return variables in addition to the common ones."""
        return {
            "CLAUDE_CONFIG_DIR": str(launch.home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # Without it, root must answer questions before each command.
            "IS_SANDBOX": "1",
        }

    def scripted(self, address: str, key: str) -> Mapping[str, str]:
        """Return the variables with which the program calls another server."""
        return {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": key}

    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that a stream tells."""
        start: Event = next((event for event in events if event.get("subtype") == "init"), {})
        last = events[-1] if events and events[-1].get("type") == "result" else None
        skills = value_at(start, "skills")
        usage = mapping_at(last, "usage")
        cached, written = (count_at(usage, f"cache_{kind}_input_tokens") for kind in ("read", "creation"))
        reasoning = mapping_at(usage, "output_tokens_details")
        tokens = Tokens(
            count_at(usage, "input_tokens") + cached + written,
            cached,
            count_at(usage, "output_tokens"),
            count_at(reasoning, "thinking_tokens") if reasoning else None,
        )
        cost = value_at(last, "total_cost_usd")
        return Trajectory(
            text=(text_at(last, "result") or "") if last else "",
            ended=NO_END if last is None else _ended(last),
            calls=tuple(_calls(events)),
            session=text_at(start, "session_id"),
            model=text_at(start, "model"),
            version=text_at(start, "claude_code_version"),
            tokens=tokens if tokens.prompt else None,
            cost_usd=float(cost) if isinstance(cost, int | float) and tokens.prompt else None,
            skills=tuple(map(str, skills)) if isinstance(skills, list) else None,
        )


def _ended(last: Event) -> Ended:
    said = first_line(text_at(last, "result") or "; ".join(map(str, value_at(last, "errors") or ())))
    if last.get("stop_reason") == "max_tokens" or "output token maximum" in said:
        return Ended("cut_off", f"stopped at its token limit: {said}")
    if last.get("stop_reason") == "refusal":
        return Ended("agent", f"was refused by the model's provider: {said}")
    subtype = str(last.get("subtype"))
    if subtype.startswith("error_max"):
        return Ended("agent", f"stopped at a limit of its own ({subtype}): {said}")
    if subtype != "success" or last.get("is_error") is not False or last.get("terminal_reason") != "completed":
        return Ended("infrastructure", f"ended with an error: {said or subtype}")
    denied = next((text_at(each, "tool_name") for each in items_at(last, "permission_denials")), None)
    if denied is not None:
        return Ended("infrastructure", f"was refused the tool {denied} by its permissions")
    # Its stream looks the same after a connection that broke.
    return COMPLETED if said else Ended("infrastructure", "ended without a last message")


def _calls(events: Sequence[Event]) -> Iterator[Call]:
    results = {
        text_at(part, "tool_use_id"): part
        for event in events
        if event.get("type") == "user"
        for part in items_at(event, "message", "content")
        if part.get("type") == "tool_result"
    }
    for event in events:
        if event.get("type") != "assistant":
            continue
        for part in items_at(event, "message", "content"):
            if part.get("type") == "tool_use":
                yield _call(part, results.get(text_at(part, "id")))


def _call(part: Event, answer: Event | None) -> Call:
    name, args = text_at(part, "name") or "", mapping_at(part, "input")
    if answer is None:
        return Call(name, args)
    said = answer.get("content")
    text = (
        said
        if isinstance(said, str)
        else "\n".join(text_at(each, "text") or "" for each in items_at(answer, "content"))
    )
    failed = answer.get("is_error") is True
    code = first_line(text).removeprefix(_EXIT) if failed and text.startswith(_EXIT) else ""
    exit_code = int(code) if code.isdecimal() else 0 if name == "Bash" and not failed else None
    return Call(name, args, text, first_line(text) if failed else None, exit_code)
