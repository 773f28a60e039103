"""GitHub Copilot CLI: `copilot --output-format json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter, Launch, written_options
from holodeck_action.extensions.agent_programs.trajectory import (
    NO_END,
    Call,
    Ended,
    Event,
    Trajectory,
    ended_by_provider,
    failed,
    first_line,
    items_at,
    last_of,
    mapping_at,
    moment_at,
    of_type,
    sum_tokens,
    text_at,
    value_at,
)
from holodeck_action.targets.protocol import ReplyFact


class Copilot(Adapter):
    """GitHub Copilot CLI. Tokens, and whether an answer was cut, stand only in its session file."""

    name = "copilot"
    program = "copilot"
    passes = (
        *("COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_API_KEY"),
        "COPILOT_OFFLINE",
    )
    way = "npm install -g @github/copilot"
    folder_variable = "COPILOT_HOME"
    server: ClassVar[Mapping[str, str]] = {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": "{address}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": "{key}",
    }
    shell = "bash"
    tells_version = True
    totals = ("tokens",)
    skill_tools = ("skill",)

    def arguments(self, launch: Launch) -> Sequence[str]:
        """Return the arguments after the program's name."""
        return [
            *("--output-format", "json", "--allow-all-tools", "--no-auto-update", "--stream", "off"),
            *((f"--resume={launch.session}",) if launch.session else ()),
            *written_options(launch.options),
        ]

    def environ(self, launch: Launch) -> Mapping[str, str]:
        """Return variables in addition to the common ones."""
        # 240 MB are unpacked there at the first start.
        shared = {**super().environ(launch), "XDG_CACHE_HOME": str(launch.shared)}
        return {**shared, "COPILOT_MODEL": launch.model} if launch.model else shared

    def unreported(self, environ: Mapping[str, str] | None) -> Mapping[ReplyFact, str]:
        """Return the facts that are missing; more for requests of a subscription."""
        found = super().unreported(environ)
        if environ is None or environ.get("COPILOT_PROVIDER_BASE_URL"):
            return found
        reason = "Copilot's own models are paid by requests, not by tokens"
        return {**found, "tokens": reason, "cost": reason}

    def session_file(self, home: Path, session: str) -> Path | None:
        """Return the file in the trial's home whose lines are read before the stream."""
        is_name = session.replace("-", "").isalnum() and session.isascii()
        return home / ".copilot" / "session-state" / session / "events.jsonl" if is_name else None

    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that a stream tells."""
        said = [mapping_at(event, "data") for event in of_type(events, "assistant.message")]
        texts = [text for each in said if (text := text_at(each, "content"))]
        used = [mapping_at(event, "data", "usage") for event in of_type(events, "session.usage_record")]
        loaded = of_type(events, "session.skills_loaded")
        return Trajectory(
            text=texts[-1] if texts else "",
            ended=_ended(events, said, used),
            calls=tuple(_calls(events)),
            session=text_at(last_of(events, "result"), "sessionId"),
            model=next((text_at(each, "model") for each in said), None),
            tokens=sum_tokens(used, ["inputTokens"], "cacheReadTokens", ["outputTokens"], "reasoningTokens"),
            skills=tuple(_offered(loaded[0])) if loaded else None,
        )


def _offered(loaded: Event) -> Iterator[str]:
    for skill in items_at(loaded, "data", "skills"):
        if skill.get("enabled") is True and isinstance(skill.get("name"), str):
            yield skill["name"]


def _ended(events: Sequence[Event], said: Sequence[Event], used: Sequence[Event]) -> Ended:
    wrong, last = of_type(events, "session.error"), last_of(events, "result")
    if wrong:
        return failed(text_at(wrong[-1], "data", "message"), "session.error")
    if last is None:
        return NO_END
    if last.get("exitCode") != 0:
        return Ended("infrastructure", f"ended with exit code {last.get('exitCode')}")
    final = said[-1] if said else {}
    text = "" if value_at(final, "toolRequests") else text_at(final, "content") or ""
    return ended_by_provider(text_at(used[-1], "finishReason") if used else None, text)


def _calls(events: Sequence[Event]) -> Iterator[Call]:
    ends = {text_at(event, "data", "toolCallId"): event for event in of_type(events, "tool.execution_complete")}
    for event in of_type(events, "tool.execution_start"):
        data = mapping_at(event, "data")
        name, args = text_at(data, "toolName") or "", mapping_at(data, "arguments")
        end, start_ms = ends.get(text_at(data, "toolCallId")), moment_at(event, "timestamp")
        if end is None:
            yield Call(name, args, start_ms=start_ms)
            continue
        answer = mapping_at(end, "data")
        error = None if answer.get("success") is True else first_line(text_at(answer, "error", "message") or "failed")
        code = value_at(answer, "shellExecution", "exitCode")
        exit_code = code if isinstance(code, int) else None
        result, end_ms = text_at(answer, "result", "content"), moment_at(end, "timestamp")
        yield Call(name, args, result, error, exit_code, start_ms, end_ms)
