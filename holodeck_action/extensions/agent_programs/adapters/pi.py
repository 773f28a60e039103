"""pi: `pi -p --mode json`."""

from __future__ import annotations

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
    items_at,
    joined_text,
    last_of,
    mapping_at,
    of_type,
    sum_tokens,
    text_at,
    value_at,
)
from holodeck_action.text.lazy_patterns import lazy_pattern


class Pi(ProvidersAdapter):
    """pi."""

    name = "pi"
    program = "pi"
    way = "npm install -g @mariozechner/pi-coding-agent"
    flags = ("-p", "--mode", "json")
    session_flag = "--session"
    folder_variable = "PI_CODING_AGENT_DIR"
    switches: ClassVar[Mapping[str, str]] = {"PI_OFFLINE": "1"}
    shell = "bash"
    exit_words = lazy_pattern(r"(?s).*Command exited with code (\d+)\s*\Z")
    tells_version = True

    def settings(self, launch: Launch) -> Mapping[str, Any]:
        """Return the file that names another server."""
        model = self.own_model(launch)
        own = {
            "baseUrl": launch.environ.get("OPENAI_BASE_URL"),
            # The name of the variable.
            "apiKey": "OPENAI_API_KEY",
            "api": "openai-completions",
            "models": [{"id": model}],
        }
        return {"models.json": {"providers": {JOB: own}}} if model else {}

    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that a stream tells."""
        messages = [mapping_at(event, "message") for event in of_type(events, "message_end")]
        said = [message for message in messages if message.get("role") == "assistant"]
        usages = [mapping_at(message, "usage") for message in said]
        last: Event = said[-1] if said else {}
        text = joined_text(of_type(items_at(last, "content"), "text"))
        costs = [value_at(usage, "cost", "total") for usage in usages]
        return Trajectory(
            text=text,
            ended=_ended(events, last, text),
            calls=tuple(self.calls(events)),
            session=next((text_at(event, "id") for event in of_type(events, "session")), None),
            model=text_at(last, "model"),
            tokens=sum_tokens(usages, ["input", "cacheRead", "cacheWrite"], "cacheRead", ["output"]),
            cost_usd=sum(cost for cost in costs if isinstance(cost, int | float)),
        )

    def calls(self, events: Sequence[Event]) -> Iterator[Call]:
        """Yield the calls of a stream; one without a result has none."""
        results = {text_at(event, "toolCallId"): event for event in of_type(events, "tool_execution_end")}
        for event in of_type(events, "tool_execution_start"):
            name, args = text_at(event, "toolName") or "", mapping_at(event, "args")
            end = results.get(text_at(event, "toolCallId"))
            if end is None:
                yield Call(name, args)
            else:
                result = joined_text(value_at(end, "result", "content"))
                yield self.call(name, args, result, failed=end.get("isError") is True)


def _ended(events: Sequence[Event], last: Event, text: str) -> Ended:
    # After retries without success, their end is the last event.
    if last_of(events, "agent_end") is None and last_of(events, "auto_retry_end") is None:
        return NO_END
    reason, error = text_at(last, "stopReason"), text_at(last, "errorMessage")
    if reason == "length":
        return cut_off()
    if "content_filter" in (error or ""):
        return Ended("agent", f"was refused by the model's provider: {error}")
    if reason != "stop":
        return failed(error, reason or "no last message")
    # The program takes the end of a broken connection for that of the answer, but has no tokens then.
    has_end = sum_tokens([mapping_at(last, "usage")], ["input", "cacheRead"], "cacheRead", ["output"]) is not None
    return answered(text) if has_end else failed("", "the connection to the model broke")
