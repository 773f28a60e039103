"""Answers that come in pieces, over HTTP, from commands and from Python, and how long it takes until the first one."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from holodeck_action.record.record import Record, TurnRecord
from tests.commands.project import Finished, Project
from tests.targets.service import Handler, Received, Service

PIECES = [{"delta": ""}, {"delta": "In "}, {"delta": "Leeds ✓"}]
END = {"tool_invocations": [], "cost_usd": 0.25}
OF_OPENAI: list[Any] = [
    {"model": "gpt-4o", "choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"model": "gpt-4o", "choices": [{"delta": {"content": "In "}}], "calls": [{"name": "find"}]},
    {"model": "gpt-4o", "choices": [{"delta": {"content": "Leeds ✓"}}]},
    {
        "model": "gpt-4o",
        "choices": [],
        "calls": [],
        "usage": {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7},
    },
]
MAPPED = {
    "text": "$.text",
    "delta": "$.choices[*].delta.content",
    "tool_invocations": "$.calls[*]",
    "usage": "$.usage",
    "model": "$.model",
}


def _event(value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"id: 1\nevent: message\ndata: {text}\n\n".encode()


def _events(*parts: Any, pause_s: float = 0.0, end: bool = True) -> Callable[[Handler, Received], None]:
    """Answer with events, after a pause before the second one: values as JSON, bytes as they are."""

    def respond(handler: Handler, _: Received) -> None:
        send = handler.chunks(content_type="text/event-stream; charset=utf-8")
        for at, part in enumerate(parts):
            if at == 1:
                time.sleep(pause_s)
            send(part if isinstance(part, bytes) else _event(part))
        if end:
            send(b"")
        else:
            handler.close_connection = True

    return respond


def _run(project: Project, target: Any, **policy: Any) -> tuple[Finished, TurnRecord]:
    project.suite([{"name": "order", "input": "Where is A-17?", "ground_truth": "In Leeds ✓"}])
    project.policy(target=target, **policy)
    finished, record = project.evaluate()
    return finished, _only(record)


def _only(record: Record) -> TurnRecord:
    (turn,) = record.turns
    return turn


def _first_ms(turn: TurnRecord) -> float:
    assert turn.timing is not None
    assert turn.timing.first_token_ms is not None
    return turn.timing.first_token_ms


def test_the_events_of_a_service_add_up_to_its_reply(project: Project, service: Service) -> None:
    service.respond = _events(PIECES[0], *PIECES[1:], END, pause_s=0.3)
    finished, turn = _run(project, f"http:{service.url}")
    assert finished.code == 0, finished.stdout
    assert (turn.response, turn.tool_invocations) == ("In Leeds ✓", ())
    assert turn.usage is not None
    assert turn.usage.cost_usd == 0.25
    assert turn.timing is not None
    assert 300 <= _first_ms(turn) <= (turn.timing.duration_ms or 0)
    assert service.received[0].headers["accept"] == "application/json, text/event-stream"


@pytest.mark.parametrize(
    "parts",
    [
        [*PIECES, "[DONE]"],
        [*PIECES, {"response": "In Leeds ✓"}],
        ["In Leeds ✓".join('""')],
        [b": comment\r\n\r\ndata:{\r", b'\ndata: "delta": "In "}\r\n\r', b"\n", *PIECES[2:], {}],
        [b"\xef\xbb\xbfdata: " + json.dumps({"delta": "In Leeds \u2713"}).encode() + b"\r\rretry: 5\r\r", {}],
        [*(bytes([byte]) for byte in _event({"delta": "In Leeds ✓"}) + _event("[DONE]"))],
    ],
)
def test_events_are_read_as_the_standard_has_them(project: Project, service: Service, parts: list[Any]) -> None:
    service.respond = _events(*parts)
    finished, turn = _run(project, f"http:{service.url}")
    assert (finished.code, turn.response) == (0, "In Leeds ✓"), turn.error


@pytest.mark.proves("ResponseMapping: delta")
@pytest.mark.parametrize("last", ["[DONE]", {"text": "In Leeds ✓", "model": None}, {"choices": None}])
def test_a_mapping_finds_the_parts_in_the_events(project: Project, service: Service, last: Any) -> None:
    service.respond = _events(*OF_OPENAI, last, pause_s=0.3)
    finished, turn = _run(project, {"type": "http", "url": service.url, "response": MAPPED})
    assert finished.code == 0, turn.error
    assert (turn.response, turn.model) == ("In Leeds ✓", "gpt-4o")
    assert turn.tool_invocations is not None
    assert [call.name for call in turn.tool_invocations] == ["find"]
    assert turn.usage is not None
    assert (turn.usage.prompt_tokens, turn.usage.completion_tokens) == (4, 3)
    assert turn.usage.cost_usd == pytest.approx((4 * 2.5 + 3 * 10) / 1e6)
    assert _first_ms(turn) >= 300


@pytest.mark.parametrize(
    ("parts", "code", "sentence"),
    [
        (PIECES, "disconnected", "ended its stream without a reply or [DONE]"),
        (["[DONE]"], "disconnected", "ended its stream without a reply or [DONE]"),
        ([*PIECES, "{oops"], "bad_reply", "answered with an event that is not JSON (Expecting property name"),
        ([{"delta": 5}], "bad_reply", "gave no usable answer: delta must be text, not a number"),
        ([*PIECES, {"tokens": 5}], "bad_reply", "gave no usable answer: unknown key `tokens`"),
        ([*PIECES, {"error": "no"}], "agent_error", "the agent reports an error: no"),
        ([{"delta": "x" * 900}] * 2, "too_large", "gave no usable answer: the parts hold more than 1000 bytes"),
        ([b": " + b"x" * 7000], "too_large", "answered with more than 6000 bytes"),
        ([b"data: 5"], "disconnected", "ended its stream without a reply or [DONE]"),
    ],
)
def test_a_stream_without_a_reply_is_an_error(
    project: Project, service: Service, parts: list[Any], code: str, sentence: str
) -> None:
    service.respond = _events(*parts)
    finished, turn = _run(project, f"http:{service.url}", limits={"max_response_bytes": 1000})
    assert finished.code == 3
    assert turn.error is not None
    assert turn.error.code == code
    assert sentence in turn.error.message


def test_a_stream_that_breaks_off_is_an_error(project: Project, service: Service) -> None:
    service.respond = _events(*PIECES, end=False)
    finished, turn = _run(project, f"http:{service.url}")
    assert finished.code == 3
    assert turn.error is not None
    assert turn.error.code == "disconnected"


def test_a_mapped_stream_without_an_answer_is_an_error(project: Project, service: Service) -> None:
    service.respond = _events({"other": 1})
    _, turn = _run(project, {"type": "http", "url": service.url, "response": MAPPED})
    assert turn.error is not None
    assert turn.error.message.endswith(
        "gave no usable answer: response.delta, $['choices'][*]['delta']['content'], matches nothing in the answer; "
        "the answer has $.other"
    )


COMMAND = """
import fcntl, json, sys, termios, time

def is_read():
    return not any(fcntl.ioctl(1, termios.FIONREAD, bytes(4)))

for line in sys.stdin:
    for part in json.loads({parts!r}):
        print(json.dumps(part), flush=True)
        while {pause} and not is_read():
            time.sleep(0.001)
        time.sleep({pause})
"""


def _command(project: Project, parts: list[Any], pause_s: float = 0.0) -> str:
    project.write("streamer.py", COMMAND.format(parts=json.dumps(parts), pause=pause_s))
    return f"command:{sys.executable} streamer.py"


def test_the_lines_of_a_command_add_up_to_its_reply(project: Project) -> None:
    finished, turn = _run(project, _command(project, [*PIECES, END], 0.2))
    assert finished.code == 0, turn.error
    assert (turn.response, turn.tool_invocations) == ("In Leeds ✓", ())
    assert turn.timing is not None
    # One pause is before the first piece that is not empty; two are before the reply, after that piece was read.
    assert 200 <= _first_ms(turn) <= (turn.timing.duration_ms or 0) - 300


def test_pieces_of_a_command_without_a_reply_are_an_error(project: Project) -> None:
    project.write("streamer.py", 'import sys; sys.stdin.readline(); print(\'{"delta": "In"}\')')
    finished, turn = _run(project, f"command:{sys.executable} streamer.py")
    assert finished.code == 3
    assert turn.error is not None
    assert turn.error.code == "crashed"


@pytest.mark.proves("Gates: p95_first_token_ms")
def test_a_gate_on_the_first_token_changes_the_exit_code(project: Project, service: Service) -> None:
    service.respond = _events(PIECES[0], *PIECES[1:], END, pause_s=0.3)
    for limit, code in ((60_000, 0), (250, 1)):
        gates = {"p95_first_token_ms": limit}
        finished, turn = _run(project, f"http:{service.url}", gates=gates)
        assert finished.code == code
        (gate,) = (each for each in project.verdict()["gates"] if each["name"] == "p95_first_token_ms")
        assert gate["actual"] == _first_ms(turn)
        assert gate["reason"].startswith("95 % of 1 answer began ")
    # What is not streamed does not tell.
    service.respond = lambda handler, _: handler.answer({"response": "In Leeds ✓"})
    finished, _ = _run(project, f"http:{service.url}", gates={"p95_first_token_ms": 60_000})
    assert finished.code == 3
    assert "1 answer did not report this time" in finished.stdout


def test_a_gate_on_the_first_token_is_refused_where_no_answer_can_tell(project: Project) -> None:
    project.numbered(1)
    project.policy(gates={"p95_first_token_ms": 100})
    sentence = "gates.p95_first_token_ms cannot be judged: {} does not report what the gate depends on: {}; give it"
    own = project.run("run", OPENAI_API_KEY="sk-" + "a" * 20)
    assert own.code == 2
    assert sentence.format("model:openai/gpt-4o", "answers of the suite's own model are not streamed") in own.stderr
    recorded = project.run("run", "--target", "recorded:answers.jsonl")
    assert recorded.code == 2
    reason = "no row of answers.jsonl has first_token_ms"
    assert sentence.format("recorded:answers.jsonl", reason) in recorded.stderr
    project.answers([{"case": "case 0", "response": "0", "first_token_ms": 80}])
    assert project.run("run", "--target", "recorded:answers.jsonl").code == 0


CALLABLE = """
import time

def answer(messages):
    yield ""
    time.sleep(0.2)
    yield "In "
    time.sleep(0.3)
    yield {"delta": "Leeds ✓"}
    yield {"tool_invocations": [], "cost_usd": 0.25}

def returning(messages):
    yield from ("In ", "Leeds ✓")
    return {"tool_invocations": [], "cost_usd": 0.25}

class Tied:
    async def __aenter__(self):
        self.task = asyncio.current_task()
    async def __aexit__(self, *_):
        assert asyncio.current_task() is self.task

async def waiting(messages):
    async with Tied():
        async for piece in later(messages):
            yield piece

async def later(messages):
    await asyncio.sleep(0.2)
    for piece in answer(messages):
        yield piece
"""


@pytest.mark.parametrize(("name", "pause_ms"), [("answer", 200), ("waiting", 400), ("returning", 0)])
def test_the_pieces_of_a_callable_add_up_to_its_reply(project: Project, name: str, pause_ms: float) -> None:
    project.write("streamer.py", "import asyncio" + CALLABLE)
    finished, turn = _run(project, f"python:streamer:{name}")
    assert finished.code == 0, turn.error
    assert (turn.response, turn.tool_invocations) == ("In Leeds ✓", ())
    assert turn.usage is not None
    assert turn.usage.cost_usd == 0.25
    assert turn.timing is not None
    # The pause between the pieces that are not empty is after the first one.
    assert pause_ms <= _first_ms(turn) <= (turn.timing.duration_ms or 0) - (0 if name == "returning" else 300)


@pytest.mark.parametrize(
    ("body", "code", "sentence"),
    [
        ("yield", "bad_reply", "a part of its reply is of type NoneType (allowed: text or {delta: text})"),
        ("yield {'delta': 5}", "bad_reply", "a part of its reply is of type int"),
        ("yield {'response': ''}; yield 'x'", "bad_reply", "it yielded a value after its reply, which must come last"),
        ("yield from ()", "bad_reply", "the reply has no `response`"),
        ("yield 'In '; 1 / 0", "raised", "it raised ZeroDivisionError: division by zero (streamer.py:2)"),
        ("yield 'In '; yield {'error': 'no'}", "agent_error", "the agent reports an error: no"),
        ("while True: yield 'x' * 900", "too_large", "the parts of its reply have more than 2000 bytes"),
        ("yield 'x' * 900; yield 'x' * 900", "too_large", "1000"),
    ],
)
def test_a_callable_that_streams_no_reply_is_an_error(project: Project, body: str, code: str, sentence: str) -> None:
    project.write("streamer.py", f"def answer(messages):\n    {body}\n")
    finished, turn = _run(project, "python:streamer:answer", limits={"max_response_bytes": 1000})
    assert finished.code == 3
    assert turn.error is not None
    assert turn.error.code == code
    assert sentence in turn.error.message
