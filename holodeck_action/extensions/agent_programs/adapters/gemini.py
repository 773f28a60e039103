"""Gemini CLI: `gemini --output-format stream-json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, ClassVar

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter, Launch
from holodeck_action.extensions.agent_programs.trajectory import (
    NO_END,
    Call,
    Ended,
    Event,
    Trajectory,
    ended_by_provider,
    failed,
    first_line,
    last_of,
    mapping_at,
    moment_at,
    of_type,
    sum_tokens,
    text_at,
    value_at,
)
from holodeck_action.text.foreign import Foreign

_RESPONSE = "gemini_cli.api_response"
_ANSWERS = ["output_token_count", "thoughts_token_count"]


class Gemini(Adapter):
    """Gemini CLI. Whether an answer was cut stands only in its telemetry, which it writes to a file."""

    name = "gemini"
    program = "gemini"
    passes = ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL")
    way = "npm install -g @google/gemini-cli"
    flags = ("--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust")
    switches: ClassVar[Mapping[str, str]] = {
        "GEMINI_TELEMETRY_ENABLED": "true",
        "GEMINI_TELEMETRY_TARGET": "local",
        "GEMINI_TELEMETRY_LOG_PROMPTS": "false",
    }
    server: ClassVar[Mapping[str, str]] = {"GOOGLE_GEMINI_BASE_URL": "{address}", "GEMINI_API_KEY": "{key}"}
    shell = "run_shell_command"
    tells_version = True
    totals = ("tokens",)
    skill_tools = ("activate_skill",)

    def environ(self, launch: Launch) -> Mapping[str, str]:
        """Return variables in addition to the common ones; they are stronger than settings of the workspace."""
        return {**self.switches, "GEMINI_TELEMETRY_OUTFILE": str(self.session_file(launch.home, ""))}

    def settings(self, launch: Launch) -> Mapping[str, Any]:
        """Return the settings of the user."""
        # With GOOGLE_GEMINI_BASE_URL it would take another method.
        own = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": False}}
        return {"settings.json": {**own, "privacy": {"usageStatisticsEnabled": False}}}

    def session_file(self, home: Path, session: str) -> Path:
        """Return the file in the trial's home whose lines are read before the stream."""
        return home / f".{self.name}" / "telemetry.log"

    def session_lines(self, content: Foreign) -> Foreign:
        """Return the reports of calls of models; each is an object of several lines in the file."""
        objects = content.lossy_text().split("\n}\n")
        found = (f"{text}}}".replace("\n", "") for text in objects if f'"{_RESPONSE}"' in text)
        return Foreign.of_text("\n".join(found))

    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that a stream tells."""
        reports = [mapping_at(event, "attributes") for event in events]
        used = [report for report in reports if report.get("event.name") == _RESPONSE]
        started: Event = next(iter(of_type(events, "init")), {})
        began_ms = moment_at(started, "timestamp") or inf
        # The file has the reports of earlier turns, too.
        new = [report for report in used if (moment_at(report, "event.timestamp") or 0) >= began_ms]
        text = ""
        for event in events:
            if event.get("type") == "message" and event.get("role") == "assistant":
                text += text_at(event, "content") or ""
            elif event.get("type") in ("tool_use", "tool_result"):
                text = ""
        return Trajectory(
            text=text,
            ended=_ended(events, [report for report in new if report.get("role") == "main"], text),
            calls=tuple(_calls(events)),
            session=text_at(started, "session_id"),
            model=text_at(started, "model"),
            tokens=sum_tokens(used, ["input_token_count"], "cached_content_token_count", _ANSWERS, _ANSWERS[1]),
        )


def _ended(events: Sequence[Event], used: Sequence[Event], text: str) -> Ended:
    last = last_of(events, "result")
    if last is None:
        return NO_END
    if last.get("status") != "success":
        said = [text_at(event, "message") for event in of_type(events, "error")]
        return failed(text_at(last, "error", "message") or (said[-1] if said else None), str(last.get("status")))
    # The program takes the end of a broken connection for that of the answer, but has no tokens then.
    if used and sum_tokens(used[-1:], _ANSWERS, "", []) is None:
        return failed("", "the connection to the model broke")
    # One for each part of the answer; only that of the last part counts.
    reasons = value_at(used[-1], "finish_reasons") if used else None
    return ended_by_provider(str(reasons[-1]) if isinstance(reasons, list) and reasons else None, text)


def _calls(events: Sequence[Event]) -> Iterator[Call]:
    """Yield the calls of a stream; the exit code of a command is not in it."""
    results = {text_at(event, "tool_id"): event for event in of_type(events, "tool_result")}
    for event in of_type(events, "tool_use"):
        end = results.get(text_at(event, "tool_id"), {})
        error = text_at(end, "error", "message") or ("failed" if end.get("status") == "error" else None)
        yield Call(
            text_at(event, "tool_name") or "",
            mapping_at(event, "parameters"),
            text_at(end, "output"),
            None if error is None else first_line(error),
            start_ms=moment_at(event, "timestamp"),
            end_ms=moment_at(end, "timestamp"),
        )
