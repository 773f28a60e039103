"""GitHub Copilot CLI: `copilot --output-format json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

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
from holodeck_action.targets.protocol import ReplyFact


class Copilot(Adapter):
    """GitHub Copilot CLI. Tokens, and whether an answer was cut, stand only in its session file."""

    name = "copilot"
    program = "copilot"
    passes = (
        *("COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_API_KEY"),
        "COPILOT_OFFLINE",
    )
    shell = "bash"
    way = "npm install -g @github/copilot"
    tells_version = True
    totals_tokens = True
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
        shared = {"COPILOT_HOME": str(launch.home / ".copilot"), "XDG_CACHE_HOME": str(launch.shared)}
        return {**shared, "COPILOT_MODEL": launch.model} if launch.model else shared

    def scripted(self, address: str, key: str) -> Mapping[str, str]:
        """Return the variables with which the program calls another server."""
        own = {"BASE_URL": f"{address}/v1", "TYPE": "openai", "API_KEY": key}
        return {"COPILOT_OFFLINE": "true", **{f"COPILOT_PROVIDER_{name}": value for name, value in own.items()}}

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
        said = [mapping_at(event, "data") for event in events if event.get("type") == "assistant.message"]
        texts = [text for each in said if (text := text_at(each, "content"))]
        last = events[-1] if events and events[-1].get("type") == "result" else None
        used = [mapping_at(event, "data", "usage") for event in events if event.get("type") == "session.usage_record"]
        loaded: Event | None = next((event for event in events if event.get("type") == "session.skills_loaded"), None)
        return Trajectory(
            text=texts[-1] if texts else "",
            ended=_ended(events, last, said, used),
            calls=tuple(_calls(events)),
            session=text_at(last, "sessionId"),
            model=next((text_at(each, "model") for each in said), None),
            tokens=_tokens(used) if used else None,
            skills=None if loaded is None else tuple(_offered(loaded)),
        )


def _offered(loaded: Event) -> Iterator[str]:
    for skill in items_at(loaded, "data", "skills"):
        if skill.get("enabled") is True and isinstance(skill.get("name"), str):
            yield skill["name"]


def _tokens(used: Sequence[Event]) -> Tokens:
    names = ("inputTokens", "cacheReadTokens", "outputTokens", "reasoningTokens")
    prompt, cached, completion, reasoning = (sum(count_at(each, name) for each in used) for name in names)
    return Tokens(prompt, cached, completion, reasoning)


def _ended(events: Sequence[Event], last: Event | None, said: Sequence[Event], used: Sequence[Event]) -> Ended:
    wrong = [event for event in events if event.get("type") == "session.error"]
    if wrong:
        message = text_at(wrong[-1], "data", "message") or ""
        return Ended("infrastructure", f"ended with an error: {first_line(message) or 'session.error'}")
    if last is None:
        return NO_END
    if last.get("exitCode") != 0:
        return Ended("infrastructure", f"ended with exit code {last.get('exitCode')}")
    reason = text_at(used[-1], "finishReason") if used else None
    if reason is None:
        return Ended("infrastructure", "left no session file, which alone tells whether the answer was cut")
    if reason == "length":
        return Ended("cut_off", "stopped at its token limit")
    if reason != "stop":
        return Ended("agent", f"was stopped by the model's provider ({reason})")
    final = said[-1] if said else {}
    if value_at(final, "toolRequests") or not (text_at(final, "content") or "").strip():
        return Ended("infrastructure", "ended without a last message")
    return COMPLETED


def _calls(events: Sequence[Event]) -> Iterator[Call]:
    answers = {
        text_at(event, "data", "toolCallId"): mapping_at(event, "data")
        for event in events
        if event.get("type") == "tool.execution_complete"
    }
    for event in events:
        if event.get("type") != "tool.execution_start":
            continue
        data = mapping_at(event, "data")
        name, args = text_at(data, "toolName") or "", mapping_at(data, "arguments")
        answer = answers.get(text_at(data, "toolCallId"))
        if answer is None:
            yield Call(name, args)
            continue
        error = None if answer.get("success") is True else first_line(text_at(answer, "error", "message") or "failed")
        code = value_at(answer, "shellExecution", "exitCode")
        exit_code = code if isinstance(code, int) else None
        yield Call(name, args, text_at(answer, "result", "content"), error, exit_code)
