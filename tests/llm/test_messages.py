"""Requests and answers of every provider as messages of the conventions: real bodies of the fake servers."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import httpx2
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.llm.call_spans import finish_reasons, input_messages, output_messages
from holodeck_action.llm.outcomes import parse
from holodeck_action.llm.spans import Attributes, Kind, Span, SpanScope
from tests.llm.models import Answer, FakeModels, ToolCall
from tests.llm.wiring import account, chat, opened, post, run
from tests.tables import walk

TOOL = {"name": "find", "description": "d"}
SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}}
OPENAI = {
    "model": "m",
    "messages": [{"role": "user", "content": "Where?"}],
    "tools": [{"type": "function", "function": {**TOOL, "parameters": SCHEMA}}],
}
ANTHROPIC = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Where?"}],
    "tools": [{**TOOL, "input_schema": SCHEMA}],
}

RESPONSES = {
    "model": "m",
    "store": False,
    "input": [{"role": "user", "content": "Where?"}],
    "tools": [{"type": "function", **TOOL, "parameters": SCHEMA, "strict": False}],
}

ANSWERED = [("openai", False), *product(("responses", "anthropic"), (False, True))]
"""The APIs, and whether they answer in a stream: chat completions are never asked for one."""


def asked(provider: str, answer: Answer, *, stream: bool) -> Any:
    """What a provider answers, as the wire reads it."""
    with FakeModels() as models:
        models.answer(lambda _: answer)
        urls = {
            "openai": f"{models.openai_url}/chat/completions",
            "responses": f"{models.openai_url}/responses",
            "anthropic": f"{models.anthropic_url}/v1/messages",
        }
        body = {**{"anthropic": ANTHROPIC, "responses": RESPONSES}.get(provider, OPENAI), "stream": stream}
        headers = {"authorization": "Bearer sk-any-key", "x-api-key": "sk-any-key", "anthropic-version": "2023-06-01"}
        with httpx2.Client(trust_env=False) as client:
            response = client.post(urls[provider], json=body, headers=headers)
        assert response.status_code == 200, response.text
        return parse(response.headers["content-type"], response.content)


@walk(("provider", "stream"), ANSWERED)
def test_an_answer_is_one_message(provider: str, stream: bool) -> None:
    payload = asked(provider, Answer("In Leeds, I think."), stream=stream)
    assert output_messages(payload) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "In Leeds, I think."}],
            "finish_reason": "stop",
        }
    ]
    assert finish_reasons(payload) == ("stop",)


@walk(("provider", "stream"), ANSWERED)
def test_a_call_is_a_part_of_its_message(provider: str, stream: bool) -> None:
    calls = (ToolCall("find", {"order": "A-17"}), ToolCall("find", {"order": "B-2"}))
    (message,) = output_messages(asked(provider, Answer("On it.", tools=calls), stream=stream))
    text, *parts = message["parts"]
    assert text == {"type": "text", "content": "On it."}
    assert [(part["type"], part["name"], part["arguments"]) for part in parts] == [
        ("tool_call", "find", {"order": "A-17"}),
        ("tool_call", "find", {"order": "B-2"}),
    ]
    assert message["finish_reason"] == "tool_call"


def test_requests_of_responses() -> None:
    summary = [{"type": "summary_text", "text": "Well…"}]
    call = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"order": "A-17"}'}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Where?"}, image]},
        *({"type": "reasoning", "summary": summary, "encrypted_content": "x"}, said, call),
        {"type": "function_call_output", "call_id": "c1", "output": "In Leeds"},
    ]
    told = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"order": "A-17"}}
    assert input_messages({"instructions": "Be brief.", "input": items}) == [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Where?"}, {"type": "input_image"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "Well…"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "I look."}]},
        {"role": "assistant", "parts": [told]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "In Leeds"}]},
    ]
    # What is embedded is no conversation.
    assert input_messages({"model": "m", "input": ["a", "b"]}) == []
    assert finish_reasons({"output": [said], "status": "incomplete", "incomplete_details": {"reason": "x"}}) == ("x",)
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    assert output_messages({"output": [refusal]})[0]["parts"] == [{"type": "text", "content": "No."}]


def test_requests_of_openai() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": "A-17"}'}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "In Leeds"},
    ]
    assert input_messages({"messages": messages}) == [
        {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Look:"}, {"type": "image_url"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"order": "A-17"}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "In Leeds"}]},
    ]


def test_requests_of_anthropic() -> None:
    document = {
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "tool_use", "id": "t1", "name": "find", "input": {"order": "A-17"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "Leeds"}]}
                ],
            },
        ],
    }
    assert input_messages(document) == [
        {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "Hm."},
                {"type": "tool_call", "id": "t1", "name": "find", "arguments": {"order": "A-17"}},
            ],
        },
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "t1", "response": "Leeds"}]},
    ]


class KeptSpan(Span):
    """A span that keeps its children, and inputs and outputs if it records them."""

    def __init__(self, name: str, *, content: bool) -> None:
        self.name, self._content = name, content
        self.children: list[KeptSpan] = []
        self.recorded: dict[str, Any] = {}

    @property
    def content(self) -> bool:
        return self._content

    def child(
        self,
        name: str,
        kind: Kind,
        attributes: Attributes,
        *,
        sampled: bool,
        started_ns: int | None,
        graded: bool = False,
    ) -> Span:
        self.children.append(KeptSpan(name, content=self._content))
        return self.children[-1]

    def set_content(self, name: str, value: Any) -> None:
        if self._content:
            self.recorded[name] = value


@walk("content", [True, False])
def test_a_call_has_a_span_and_its_messages_if_content_is_recorded(content: bool) -> None:
    run_span = KeptSpan("run", content=content)

    async def work() -> None:
        with FakeModels() as models, SpanScope(run_span):
            models.answer(lambda _: Answer("In Leeds."))
            async with opened() as wire:
                await post(wire, account(models.openai_url), chat("Where?"))

    run(work)
    (call,) = run_span.children
    assert call.name == "chat gpt-4o"
    spoken = {name: message[0]["parts"][0]["content"] for name, message in call.recorded.items()}
    assert spoken == ({"gen_ai.input.messages": "Where?", "gen_ai.output.messages": "In Leeds."} if content else {})


WORDS = (
    "messages choices message content role delta tool_calls function arguments type text index content_block "
    "partial_json system stop_reason finish_reason name id input"
)
NAMES = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "tool", "tool_use", "text", "{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)


@given(JSON)
def test_whatever_a_server_says_nothing_raises(value: Any) -> None:
    json.dumps([input_messages(value), output_messages(value), finish_reasons(value)])
    json.dumps([output_messages([value, {"choices": [value]}]), output_messages({"choices": [{"message": value}]})])
    begun = {"type": "message_start", "message": {"content": value}}
    block = {"type": "content_block_start", "index": value, "content_block": {"type": "tool_use"}}
    delta = {"type": "input_json_delta", "partial_json": "{"}
    events = [begun, block, {"type": "content_block_delta", "index": value, "delta": delta}]
    text = {**block, "index": 0, "content_block": {"type": "text", "text": value}}
    events[1:1] = [text, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": value}}]
    json.dumps(output_messages([*events, {"type": "message_delta", "delta": {"stop_reason": value}}]))
