"""No tool was called is known only if every answer of a model can be read, or ends for another reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.commands.project import Project
from tests.extensions.frameworks.traced_shop import AGENT

TARGET = """
import json
import traced

def answer(messages, request):
    for kind, attributes, events, fails in json.loads(request["input"]):
        try:
            with traced.work(kind) as span:
                span.set_attributes(attributes)
                for name, values in events:
                    span.add_event(name, values)
                if fails:
                    raise RuntimeError("the service is busy")
        except RuntimeError:
            pass
    return "Hello"
"""
Work = tuple[str, dict[str, Any], list[tuple[str, dict[str, Any]]], bool]
CALL = {"id": "c1", "function": {"name": "refund", "arguments": '{"order": 1}'}}


def model(*events: tuple[str, dict[str, Any]], fails: bool = False, **attributes: Any) -> Work:
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    return "chat", {"gen_ai.operation.name": "chat", **named}, [*events], fails


def openinference(**attributes: Any) -> Work:
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    return "ChatCompletion", {"openinference.span.kind": "LLM", **named}, [], False


def messages(*parts: dict[str, Any], **more: Any) -> str:
    return json.dumps([{"role": "assistant", "parts": parts, **more}])


def choice(**values: Any) -> tuple[str, dict[str, Any]]:
    return "gen_ai.choice", values


AGENT_SPAN: Work = (
    "invoke_agent",
    {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 1},
    [],
    False,
)
EMBEDDING: Work = ("embeddings", {"gen_ai.operation.name": "embeddings"}, [], False)
RETRIEVAL: Work = ("retrieval", {"openinference.span.kind": "RETRIEVER", "output.value": "[]"}, [], False)
TEXT, ASKED = {"type": "text", "content": "Hello"}, {"type": "tool_call", "id": "c1", "name": "refund", "arguments": {}}
STOP = model(gen_ai__response__finish_reasons=["stop"])
KNOWN_NONE: dict[str, list[Work]] = {
    "reason": [STOP],
    "reason with a prefix": [model(gen_ai__response__finish_reasons=["FinishReason.MAX_TOKENS"])],
    "reason of Anthropic": [model(gen_ai__response__finish_reasons=["end_turn"])],
    "reason as text": [openinference(llm__finish_reason="length")],
    "reason, and broken messages": [model(gen_ai__response__finish_reasons=["stop"], gen_ai__output__messages="[{")],
    "messages": [model(gen_ai__output__messages=messages(TEXT))],
    "reason of a message": [model(gen_ai__output__messages=messages(finish_reason="stop"))],
    "flat message": [openinference(llm__output_messages__0__message__content="Hello")],
    "flat completion": [model(gen_ai__completion__0__content="Hello", gen_ai__completion__0__role="assistant")],
    "choice": [model(choice(message=json.dumps({"role": "assistant", "content": "Hello", "tool_calls": []})))],
    "choice of blocks": [model(choice(message=json.dumps([{"text": "Hello"}])))],
    "choice as event content": [model(choice(**{"gen_ai.event.content": json.dumps({"message": {"content": "Hi"}})}))],
    "choice as text": [model(choice(message="Hello"))],
    "a call that failed, then an answer": [model(fails=True), STOP],
    "messages of Gemini": [model(gen_ai__system="gcp.gemini", gen_ai__output__messages=messages(TEXT))],
    "embeddings, then an answer": [EMBEDDING, STOP],
}
UNKNOWN: dict[str, list[Work]] = {
    "an agent alone": [AGENT_SPAN],
    "embeddings alone": [EMBEDDING],
    "a retrieval alone": [RETRIEVAL],
    "no messages": [model(gen_ai__usage__input_tokens=3, gen_ai__usage__output_tokens=1)],
    "broken messages": [model(gen_ai__output__messages='[{"role": "assistant", "parts": [{"type": "tool_c')],
    "no message": [model(gen_ai__output__messages="[]")],
    "no part": [model(gen_ai__output__messages=messages())],
    "messages as text": [model(gen_ai__output__messages="Hello")],
    "not all messages are objects": [model(gen_ai__output__messages=json.dumps([1, {"parts": [TEXT]}]))],
    "hidden message": [openinference(llm__output_messages__0__message__content="__REDACTED__")],
    "a role alone": [openinference(llm__output_messages__0__message__role="assistant")],
    "raw output alone": [openinference(output__value='{"choices": []}')],
    "completed": [model(gen_ai__response__finish_reasons=["completed"])],
    "unknown reason": [model(gen_ai__response__finish_reasons=["unknown"])],
    "Gemini stops": [model(gen_ai__provider__name="gcp.gemini", gen_ai__response__finish_reasons=["STOP"])],
    "one of two": [STOP, model(gen_ai__usage__input_tokens=3)],
    "the failed call answered": [model(fails=True, gen_ai__response__id="r1")],
    "the only call failed": [model(fails=True)],
    "asked by a reason": [model(gen_ai__response__finish_reasons=["tool_calls"]), STOP],
    "asked by a message": [model(gen_ai__output__messages=messages(TEXT, ASKED)), STOP],
    "asked, whatever the reason": [
        model(gen_ai__response__finish_reasons=["stop"], gen_ai__output__messages=messages(ASKED))
    ],
    "asked by a flat message": [
        openinference(llm__output_messages__0__message__tool_calls__0__tool_call__function__name="refund"), STOP
    ],
    "asked by an old function call": [openinference(llm__output_messages__0__message__function_call_name="refund")],
    "asked by a flat completion": [model(gen_ai__completion__0__tool_calls__0__name="refund")],
    "asked by a choice": [model(choice(message=json.dumps({"content": None, "tool_calls": [CALL]}))), STOP],
    "asked by the reason of a choice": [model(choice(finish_reason="tool_use", message="A moment")), STOP],
    "asked by a choice of blocks": [model(choice(message=json.dumps([{"toolUse": {"name": "refund"}}]))), STOP],
    "broken choice": [model(choice(message='{"content": null, "tool_ca'))],
    "empty choice": [model(choice(index=0))],
}  # fmt: skip
CALLED: dict[str, list[Work]] = {
    "choice and tool message": [
        model(choice(message=json.dumps({"content": None, "tool_calls": [CALL]}))),
        model(("gen_ai.tool.message", {"id": "c1", "content": "done"}), gen_ai__response__finish_reasons=["stop"]),
    ],
    "flat completion and prompt": [
        model(
            gen_ai__completion__0__tool_calls__0__id="c1",
            gen_ai__completion__0__tool_calls__0__name="refund",
            gen_ai__completion__0__tool_calls__0__arguments='{"order": 1}',
        ),
        model(
            gen_ai__prompt__2__tool_call_id="c1",
            gen_ai__prompt__2__content="done",
            gen_ai__completion__0__content="Hello",
        ),
    ],
    "a failed tool": [
        ("execute_tool", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund",
                          "gen_ai.tool.call.arguments": '{"order": 1}'}, [], True),
    ],
}  # fmt: skip


@pytest.mark.full
def test_no_call_is_known_only_from_readable_answers(project: Project) -> None:
    shapes = {**KNOWN_NONE, **UNKNOWN, **CALLED}
    project.suite(
        [
            {"name": name, "input": json.dumps(works), "ground_truth": "Hello", "expected_tools": []}
            for name, works in shapes.items()
        ]
    )
    project.write("traced.py", AGENT)
    project.write("shop.py", TARGET)
    project.policy(target="python:shop:answer", spans=True)
    finished, record = project.evaluate()
    assert finished.code == 1, finished.stdout
    calls = {case.name: case.trials[0].turns[0].tool_invocations for case in record.cases}
    assert {name for name, made in calls.items() if made == ()} == {*KNOWN_NONE}
    assert {name for name, made in calls.items() if made is None} == {*UNKNOWN}
    for name in CALLED:
        (made,) = calls[name] or ()
        assert (made.name, made.args) == ("refund", {"order": 1})
        assert (made.result, made.error) == (
            (None, "RuntimeError: the service is busy") if "failed" in name else ("done", None)
        )
    names = {case.id: case.name for case in record.cases}
    outcomes = {names[case["id"]]: case["outcome"] for case in project.verdict()["cases"]}
    expected = dict.fromkeys(KNOWN_NONE, "passed") | dict.fromkeys(UNKNOWN, "error") | dict.fromkeys(CALLED, "failed")
    assert outcomes == expected


CHUNKS: dict[str, tuple[dict[str, Any], int | None]] = {
    "listed": ({"gen_ai.retrieval.documents": '[{"id": "a", "content": "x"}]'}, 1),
    "none": ({"gen_ai.retrieval.documents": "[]"}, 0),
    "flat": ({"retrieval.documents.0.document.content": "x"}, 1),
    "no output": ({"output.value": "[]"}, 0),
    "not all are objects": ({"gen_ai.retrieval.documents": '["x", {"id": "a"}]'}, None),
    "broken": ({"gen_ai.retrieval.documents": '[{"id": "a"'}, None),
    "in the output": ({"output.value": '["some text"]'}, None),
    "hidden": ({"output.value": "__REDACTED__"}, None),
    "nothing": ({}, None),
}


@pytest.mark.full
@pytest.mark.parametrize("name", CHUNKS)
def test_chunks_that_cannot_be_read_are_unknown(name: str, project: Project) -> None:
    attributes, expected = CHUNKS[name]
    work: Work = ("retrieval", {"openinference.span.kind": "RETRIEVER", **attributes}, [], False)
    project.suite([{"name": name, "input": json.dumps([work, STOP]), "ground_truth": "Hello", "expected_tools": []}])
    project.write("traced.py", AGENT)
    project.write("shop.py", TARGET)
    project.policy(target="python:shop:answer", spans=True)
    finished, record = project.evaluate()
    assert finished.code == 0, finished.stdout
    (turn,) = record.turns
    assert (None if turn.retrieved_chunks is None else len(turn.retrieved_chunks)) == expected
