"""The traces of the tour: conversations of production, as OpenTelemetry's collector writes them."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import yaml

_TIMES = {"week": (1_793_827_000, 8_400), "night": (1_794_432_000, 300)}
"""When the first conversation begins, in seconds since 1970, and the seconds until the next one."""


def write_night(file: Path, night: str, target: Path) -> None:
    """Write the conversations of a night as JSON lines of OTLP.

    Args:
        file: the conversations, nights.yaml.
        night: `week` or `night`.
        target: the file to write.
    """
    conversations = yaml.safe_load(file.read_text(encoding="utf-8"))["conversations"]
    # Different conversations take turns.
    rounds = itertools.zip_longest(*([each] * each[night] for each in conversations))
    mixed = [each for turn in rounds for each in turn if each is not None]
    lines = [json.dumps(_request(each, f"{night}-{number}", night, number)) for number, each in enumerate(mixed)]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _request(conversation: dict[str, Any], name: str, night: str, number: int) -> dict[str, Any]:
    trace = hashlib.sha256(name.encode()).hexdigest()[:32]
    first, every = _TIMES[night]
    began = (first + number * every) * 1_000_000_000
    asked, answered = conversation["asked"], conversation["answered"]
    attributes: dict[str, str] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": f"chat-{name}",
        "gen_ai.response.model": "gpt-6-luna",
        "gen_ai.input.messages": json.dumps([_message("user", asked)]),
        "gen_ai.output.messages": json.dumps([_message("assistant", answered)]),
    }
    if conversation.get("disliked"):
        attributes["user.rating"] = "down"
    spans = [_span(trace, 1, "invoke_agent service-desk", began, attributes)]
    if "tool" in conversation:
        called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": conversation["tool"]}
        spans.append(_span(trace, 2, f"execute_tool {conversation['tool']}", began, called))
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "service-desk"}, "spans": spans}]}]}


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _span(trace: str, number: int, name: str, began: int, attributes: dict[str, str]) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if number == 1 else f"{1:016x}",
        "name": name,
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + 1_400_000_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
