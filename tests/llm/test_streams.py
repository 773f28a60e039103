"""Streams of events: secrets that they hold together, and where they break off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.llm.calls import WireError
from holodeck_action.llm.cassette.recorded_calls import redact_events
from holodeck_action.llm.outcomes import parse, parse_complete
from holodeck_action.text.redaction import Redactor
from tests.tables import walk

SECRET = "planted/secret+4711"
REDACTOR = Redactor([SECRET])


def sse(*events: Any) -> str:
    return "".join(f"event: x\ndata: {json.dumps(event, separators=(',', ':'))}\n\n" for event in events)


def anthropic(*texts: str, index: int = 0, name: str = "text") -> list[dict[str, Any]]:
    return [{"type": "content_block_delta", "index": index, "delta": {"type": f"{name}_delta", name: t}} for t in texts]


def openai(*texts: str, index: int = 0) -> list[dict[str, Any]]:
    return [{"id": "c", "choices": [{"index": index, "delta": {"content": text}}]} for text in texts]


def responses(*texts: str, index: int = 0, name: str = "output_text") -> list[dict[str, Any]]:
    place = {"item_id": "m", "output_index": index, "content_index": 0}
    return [{"type": f"response.{name}.delta", **place, "delta": text} for text in texts]


def ollama(*texts: str) -> str:
    return "".join(
        json.dumps({"message": {"role": "assistant", "content": text}, "done": False}) + "\n" for text in texts
    )


def join_events(body: str, kind: str = "text/event-stream") -> str:
    return json.dumps(parse(kind, body.encode()))


@walk(
    ("body", "kind"),
    [
        (sse(*anthropic("a plan", "ted/sec", "ret+4711 b")), "text/event-stream"),
        (sse(*anthropic('{"a": "plan', "ted/sec", 'ret+4711"}', name="partial_json")), "text/event-stream"),
        (sse(*openai("a plan", "ted/sec", "ret+4711 b")), "text/event-stream"),
        (sse(*responses("a plan", "ted/sec", "ret+4711 b")), "text/event-stream"),
        (sse(*responses('{"a": "plan', "ted/sec", 'ret+4711"}', name="function_call_arguments")), "text/event-stream"),
        (ollama("a plan", "ted/sec", "ret+4711 b"), "application/x-ndjson"),
    ],
)
def test_a_secret_in_pieces_is_taken_out(body: str, kind: str) -> None:
    clean = redact_events(body, REDACTOR)
    pieces = join_events(clean, kind)
    assert "plan" not in pieces
    assert "ted/sec" not in pieces
    assert "4711" not in pieces
    assert "***" in pieces
    assert len(parse(kind, clean.encode())) == len(parse(kind, body.encode()))


def test_texts_beside_each_other_are_not_joined() -> None:
    first, second = anthropic("planted/", "x", index=0), anthropic("secret+4711", "y", index=1)
    body = sse(first[0], second[0], first[1], second[1])
    assert redact_events(body, REDACTOR) == body
    body = sse(*responses("planted/"), *responses("secret+4711", index=1))
    assert redact_events(body, REDACTOR) == body
    # Their own pieces are, whatever comes between.
    body = sse(
        *(
            event
            for pair in zip(openai("planted/", "secret+4711"), openai("a", "b", index=1), strict=True)
            for event in pair
        )
    )
    assert "planted" not in redact_events(body, REDACTOR)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_holds_no_secret_stays_to_the_letter(end: str) -> None:
    body = (sse(*openai("planted", " nothing")) + "data: [DONE]\n\n: a comment\n\ndata: no JSON\n\n").replace("\n", end)
    assert redact_events(body, REDACTOR) == body


def test_a_cleaned_stream_is_still_whole() -> None:
    end = {"type": "message_stop"}
    clean = redact_events(sse(*anthropic("planted/secret", "+4711"), end), REDACTOR)
    assert parse_complete("text/event-stream", clean.encode(), "x")[-1] == end


def test_an_event_too_deep_to_look_through_is_cleaned_as_text() -> None:
    body = "data: " + '{"a":' * 900 + f'"{SECRET}"' + "}" * 900 + "\n\n"
    assert SECRET not in redact_events(body, REDACTOR)


@walk("kind", ["text/event-stream", "application/x-ndjson"])
@walk("value", ['{"errors": ["no such field"]}', "[1]", '"text"', "7", "null"])
def test_whole_json_of_another_shape_is_no_broken_stream(kind: str, value: str) -> None:
    """It would come again: whoever reads it says what is missing, and nobody asks a second time."""
    bodies = [value] if kind == "application/x-ndjson" else [value, f"data: {value}\n\n"]
    for body in bodies:
        assert parse_complete(kind, body.encode(), "x") in (json.loads(value), [json.loads(value)])


@walk(
    ("kind", "body"),
    [
        ("text/event-stream", ": ping\n\n"),
        ("text/event-stream", ""),
        ("text/event-stream", 'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'),
        ("application/x-ndjson", '{"message": {"content": "a"}, "done": false}\n'),
    ],
)
def test_a_stream_that_breaks_off_is_asked_for_again(kind: str, body: str) -> None:
    with pytest.raises(WireError) as caught:
        parse_complete(kind, body.encode(), "x")
    assert (caught.value.code, caught.value.retry_worthy) == ("truncated", True)
