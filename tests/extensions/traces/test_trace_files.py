"""The conversations that files of traces contain."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from holodeck_action.extensions.traces.conversations import TraceConversation
from holodeck_action.extensions.traces.reader import TraceFiles
from holodeck_action.suite.checkout import Checkout
from tests.extensions.traces.spans import NIGHT, SECOND, exchange, openinference, request, said, span

A, B, C, D = (letter * 32 for letter in "abcd")


def lines(*requests: Mapping[str, Any]) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in requests)


def protobuf(wanted: Mapping[str, Any]) -> bytes:
    """Return a request as OpenTelemetry's own package writes it."""
    held = copy.deepcopy(dict(wanted))
    for each in held["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        # In JSON, OTLP has hexadecimal ids, other than Protocol Buffers have.
        for key in ("traceId", "spanId", "parentSpanId"):
            each[key] = base64.b64encode(bytes.fromhex(each[key])).decode()
    made: bytes = ParseDict(held, ExportTraceServiceRequest()).SerializeToString()
    return made


def read(folder: Path, *names: str) -> tuple[list[TraceConversation], tuple[str, ...]]:
    found = TraceFiles(names, Checkout.unbounded(folder))
    try:
        return list(found.conversations()), found.notices
    finally:
        found.close()


def test_traces_of_a_session_are_turns_of_a_conversation(tmp_path: Path) -> None:
    later = exchange(B, "And when?", "Tomorrow.", session="s-1", at=60)
    first = exchange(
        A, "Where is A-17?", "In Leeds.", session="s-1", tool="find_order", attributes={"user.rating": "down"}
    )
    other = openinference(C, "When do you open?", "At nine.", session="s-2", at=30)
    # The spans of a trace are in several requests and files, in any order.
    (tmp_path / "night").mkdir()
    (tmp_path / "night/1.jsonl").write_text(lines(request(later), request(first[2:]), request(other)))
    (tmp_path / "night/2.jsonl").write_text(lines(request(first[:2], {"service.name": "shop"})))

    (one, two), notices = read(tmp_path, "night")

    assert notices == ()
    assert (one.id, one.session, two.id) == ("s-1", "s-1", "s-2")
    asked, again = one.turns
    assert (asked.trace, asked.input, asked.output) == (A, "Where is A-17?", "In Leeds.")
    assert asked.tool_calls == (
        {"name": "find_order", "args": {"order": "A-17"}, "duration_ms": 1000.0, "result": {"place": "Leeds"}},
    )
    assert asked.attributes["user.rating"] == "down"
    assert asked.attributes["resource.service.name"] == "shop"
    assert (asked.start_ns, asked.end_ns, asked.duration_ms) == (NIGHT, NIGHT + SECOND, 1000.0)
    assert [(use["model"], use["prompt_tokens"]) for use in asked.usage or ()] == [("openai/gpt-4o-mini", 200)]
    assert (again.input, again.output) == ("And when?", "Tomorrow.")
    # The second trace has a readable answer and no call: none was made. What was retrieved is unknown.
    assert (again.tool_calls, again.retrieved) == ((), None)
    (turn,) = two.turns
    assert (turn.input, turn.output) == ("When do you open?", "At nine.")
    assert turn.retrieved == ({"id": "d1", "text": "Open at nine.", "score": None},)
    assert (two.models, two.tags, one.tools) == (("anthropic/claude-4",), ("beta", "vip"), ("find_order",))


@pytest.mark.parametrize("form", ["request", "requests with their lengths"])
def test_protocol_buffers_tell_the_same(tmp_path: Path, form: str) -> None:
    wanted = [request(exchange(A, "Where?", "In Leeds.", tool="find_order")), request(exchange(B, "When?", "Now."))]
    (tmp_path / "traces.jsonl").write_text(lines(*wanted))
    parts = [protobuf(each) for each in wanted]
    if form != "request":
        parts = [len(part).to_bytes(4, "big") + part for part in parts]
    (tmp_path / "traces.pb").write_bytes(b"".join(parts))

    assert read(tmp_path, "traces.pb") == read(tmp_path, "traces.jsonl")
    assert len(read(tmp_path, "traces.pb")[0]) == 2


def test_what_cannot_be_read_leaves_the_lists_of_its_trace_unknown(tmp_path: Path) -> None:
    cut = json.dumps(request([span(A, 9, 1, "execute_tool", 0, {"gen_ai.tool.name": "refund"})]))[:-40]
    wrong = request([*exchange(B, "When?", "Now."), {"traceId": C, "name": 5}, {"traceId": D, "spanId": "1"}])
    sound = [exchange(trace, "Where?", "In Leeds.") for trace in (A, C, D)]
    (tmp_path / "t.jsonl").write_text("".join([lines(*map(request, sound)), cut, "\n", lines(wrong)]))

    found, notices = read(tmp_path, "t.jsonl")

    calls = {each.id: each.turns[0].tool_calls for each in found}
    assert calls == {A: None, B: (), C: None, D: None}
    assert [each.turns[0].output for each in found] == ["In Leeds.", "Now.", "In Leeds.", "In Leeds."]
    assert [notice.split(" is ")[0].split(" cannot ")[0] for notice in notices] == [
        "traces: t.jsonl: line 4",
        "traces: t.jsonl: line 5",
    ]


def test_one_trace_with_two_sessions_joins_neither(tmp_path: Path) -> None:
    def asked(trace: str, *sessions: str) -> Iterable[Mapping[str, Any]]:
        spans = exchange(trace, "Where?", "In Leeds.")[-1:]
        for at, session in enumerate(sessions):
            spans.append(span(trace, 20 + at, 0, "invoke_agent", 0, {"session.id": session}))
        return spans

    # A session inside another one is that of a sub-agent.
    nested = [
        span(C, 1, 0, "invoke_agent", 0, {"session.id": "outer"}),
        span(
            C,
            2,
            1,
            "invoke_agent",
            0,
            {"session.id": "inner", "gen_ai.output.messages": json.dumps([said("assistant", "Hm.")])},
        ),
    ]
    (tmp_path / "t.jsonl").write_text(lines(*map(request, (asked(A, "mine"), asked(B, "mine", "yours"), nested))))

    found, notices = read(tmp_path, "t.jsonl")

    assert sorted((each.id, len(each.turns)) for each in found) == [(B, 1), ("mine", 1), ("outer", 1)]
    assert notices == ("traces: 1 trace with several sessions: each such trace is a conversation by itself",)


@pytest.mark.parametrize(
    ("inputs", "asked"),
    [
        ({"topic": "Tea", "year": "2026"}, '{"topic": "Tea", "year": "2026"}'),
        ({"request": "Write about tea."}, "Write about tea."),
        ({}, "Current Task: write"),
    ],
)
def test_the_input_of_a_crew_is_what_it_was_given(tmp_path: Path, inputs: Mapping[str, str], asked: str) -> None:
    crew = {"openinference.span.kind": "CHAIN", "output.value": json.dumps({"raw": "Tea is a drink.", "tasks": []})}
    crew |= {"input.value": json.dumps(inputs), "crew_inputs": json.dumps(inputs)} if inputs else {"crew_inputs": ""}
    prompt = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Current Task: write",
    }
    router = {"openinference.span.kind": "CHAIN", "input.value": "Tea?", "output.value": "__end__"}
    spans = [
        span(A, 1, 0, "Crew.kickoff", 0, crew),
        span(A, 2, 1, "route", 0.5, router),
        span(A, 3, 1, "ChatCompletion", 0, {"openinference.span.kind": "LLM", **prompt}),
    ]
    (tmp_path / "t.jsonl").write_text(lines(request(spans)))

    ((found,), _) = read(tmp_path, "t.jsonl")

    assert (found.turns[0].input, found.turns[0].output) == (asked, "Tea is a drink.")


def test_a_failure_inside_of_a_trace_is_its_error_without_traceback(tmp_path: Path) -> None:
    root = span(A, 1, 0, "workflow", 0, {"openinference.span.kind": "CHAIN"})
    reason = 'Traceback (most recent call last):\n  File "/app/shop.py", line 3, in ask\nValueError: no quota\n'
    agent = span(A, 2, 1, "agent", 0, {"openinference.span.kind": "AGENT", "input.value": "Where?"})
    tool = span(A, 3, 2, "find_order", 0, {"openinference.span.kind": "TOOL", "tool.name": "find_order"})
    failed = {"code": 2, "message": reason}
    (tmp_path / "a.jsonl").write_text(lines(request([root, {**agent, "status": failed}, tool])))
    # The failure of a tool alone is none of the agent, whose answer is unknown.
    (tmp_path / "t.jsonl").write_text(lines(request([root, agent, {**tool, "status": failed}])))

    ((found,), _), ((other,), _) = read(tmp_path, "a.jsonl"), read(tmp_path, "t.jsonl")

    assert (found.turns[0].error, found.turns[0].output) == ("ValueError: no quota", None)
    assert (other.turns[0].error, other.turns[0].output) == (None, None)
    assert [call["error"] for call in other.turns[0].tool_calls or ()] == ["ValueError: no quota"]
