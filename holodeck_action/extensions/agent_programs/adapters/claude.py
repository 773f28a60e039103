"""Claude Code: `claude -p --output-format stream-json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from msgspec.structs import replace

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter
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
    items_at,
    joined_text,
    last_of,
    mapping_at,
    moment_at,
    of_type,
    sum_tokens,
    text_at,
    value_at,
)
from holodeck_action.suite.model.named_models import NAMED
from holodeck_action.text.lazy_patterns import lazy_pattern


class Claude(Adapter):
    """Claude Code.

    Attributes:
        prompt_tokens: the parts of the tokens of prompts.
        reasons: the values of `terminal_reason` at the end of a completed turn; None if there is none.
    """

    name = "claude"
    program = "claude"
    passes: ClassVar[tuple[str, ...]] = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "ANTHROPIC_AUTH_TOKEN",
    )
    way = "npm install -g @anthropic-ai/claude-code"
    flags: ClassVar[tuple[str, ...]] = (
        *("-p", "--output-format", "stream-json", "--verbose"),
        *("--permission-mode", "bypassPermissions", "--strict-mcp-config"),
    )
    folder_variable = "CLAUDE_CONFIG_DIR"
    switches: ClassVar[Mapping[str, str]] = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        # Without it, root must answer questions before each command.
        "IS_SANDBOX": "1",
    }
    server: ClassVar[Mapping[str, str]] = {"ANTHROPIC_BASE_URL": "{address}", "ANTHROPIC_API_KEY": "{key}"}
    shell = "Bash"
    exit_words = lazy_pattern(r"(?m)Exit code (\d+)$")
    totals: ClassVar[tuple[Literal["tokens", "cost"], ...]] = ("cost",)
    skill_tools = ("skill",)
    scripted_model = NAMED["anthropic"][0]
    prompt_tokens: ClassVar[Sequence[str]] = (
        "input_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
    reasons: ClassVar[tuple[str | None, ...]] = ("completed",)

    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that a stream tells."""
        start: Event = next((event for event in events if event.get("subtype") == "init"), {})
        last = last_of(events, "result")
        skills, cost = value_at(start, "skills"), value_at(last, "total_cost_usd")
        tokens = sum_tokens(
            [mapping_at(last, "usage")],
            self.prompt_tokens,
            "cache_read_input_tokens",
            ["output_tokens"],
            "output_tokens_details.thinking_tokens",
        )
        return Trajectory(
            text=text_at(last, "result") or "",
            ended=NO_END if last is None else self.ended(events, last),
            calls=tuple(self.calls(events)),
            session=text_at(start, "session_id"),
            model=text_at(start, "model"),
            version=text_at(start, f"{self.name}_code_version"),
            tokens=tokens,
            cost_usd=float(cost) if isinstance(cost, int | float) and tokens else None,
            skills=tuple(map(str, skills)) if isinstance(skills, list) else None,
        )

    def calls(self, events: Sequence[Event]) -> Iterator[Call]:
        """Yield the calls of a stream; one without a result has none."""
        results = {
            text_at(part, "tool_use_id"): (part, event)
            for event in of_type(events, "user")
            for part in of_type(items_at(event, "message", "content"), "tool_result")
        }
        for event in of_type(events, "assistant"):
            for part in of_type(items_at(event, "message", "content"), "tool_use"):
                name, args = text_at(part, "name") or "", mapping_at(part, "input")
                answer, end = results.get(text_at(part, "id"), (None, None))
                if answer is None:
                    call = Call(name, args)
                else:
                    text = joined_text(answer.get("content"))
                    call = self.call(name, args, text, failed=answer.get("is_error") is True)
                yield replace(call, start_ms=moment_at(event, "timestamp"), end_ms=moment_at(end, "timestamp"))

    def ended(self, events: Sequence[Event], last: Event) -> Ended:
        """Return how a turn ended, by the last event of its stream."""
        said = first_line(
            text_at(last, "result")
            or text_at(last, "error", "message")
            or "; ".join(map(str, value_at(last, "errors") or ()))
        )
        if last.get("stop_reason") == "max_tokens" or "output token maximum" in said:
            return cut_off(said)
        if last.get("stop_reason") == "refusal":
            return Ended("agent", f"was refused by the model's provider: {said}")
        subtype = str(last.get("subtype"))
        if subtype.startswith("error_max"):
            return Ended("agent", f"stopped at a limit of its own ({subtype}): {said}")
        if subtype != "success" or last.get("is_error") is not False or last.get("terminal_reason") not in self.reasons:
            return failed(said, subtype)
        denied = next((text_at(each, "tool_name") for each in items_at(last, "permission_denials")), None)
        if denied is not None:
            return Ended("infrastructure", f"was refused the tool {denied} by its permissions")
        # Its stream looks the same after a connection that broke.
        return answered(said)
