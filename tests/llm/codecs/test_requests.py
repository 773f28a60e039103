"""A conversation goes out as it went out by the providers' packages, so that what was recorded before is found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.llm.clients import codec_of
from holodeck_action.llm.messages import AnswerSchema, Image, Question, Request, ToolDefinition, ToolResult
from tests.llm.codecs.plans import answer_of, codec_body, message_item, package_of, plan_of, response_of
from tests.llm.models import KEY
from tests.tables import walk

AZURE = {"endpoint": "https://a.example", "api_version": "2024-10-21"}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "openai": ("openai", "gpt-4o", {}),
    "openai ft": ("openai", "ft:gpt-4o:shop", {}),
    "openai o1-mini": ("openai", "o1-mini", {}),
    "openai gpt-5": ("openai", "gpt-5-mini", {}),
    "openai gpt-5.1": ("openai", "gpt-5.1", {}),
    "openai elsewhere": ("openai", "mixtral", {"endpoint": "https://models.example/v1"}),
    "azure deployment": ("azure_openai", "gpt-4o", AZURE),
    "azure v1": ("azure_openai", "my deployment 50 %", {"endpoint": "https://a.example"}),
    "azure llama": ("azure_openai", "Llama-3.3-70B", AZURE),
    "azure grok": ("azure_openai", "grok-3", AZURE),
    "azure mistral": ("azure_openai", "mistral-large", AZURE),
    "azure gpt-oss": ("azure_openai", "gpt-oss-120b", AZURE),
    "ollama llama": ("ollama", "llama3.2", {}),
    "ollama gemma": ("ollama", "gemma3:4b", {}),
    "ollama gpt-oss": ("ollama", "gpt-oss:20b", {}),
    "ollama phi": ("ollama", "phi4", {}),
    "responses gpt-4.1": ("openai", "gpt-4.1", {"api": "responses"}),
    "responses gpt-5.1": ("openai", "gpt-5.1", {"api": "responses"}),
    "responses gpt-5.6": ("openai", "gpt-5.6", {"api": "responses"}),
    "responses gpt-6-luna": ("openai", "gpt-6-luna", {"api": "responses"}),
    "responses gpt-7-x": ("openai", "gpt-7-x", {"api": "responses"}),
    "responses azure": ("azure_openai", "gpt-5.4", {"endpoint": "https://a.example", "api": "responses"}),
    "responses elsewhere": ("openai", "mixtral", {"endpoint": "https://models.example/v1", "api": "responses"}),
    "groq": ("groq", "llama-3.3-70b", {}),
    "gemini": ("gemini", "gemini-2.5-flash", {}),
    "claude haiku 4.5": ("anthropic", "claude-haiku-4-5", {}),
    "claude opus 5.5": ("anthropic", "claude-opus-5-5", {}),
    "claude 3": ("anthropic", "claude-3-5-haiku-latest", {}),
    "claude unknown": ("anthropic", "claude-chosen", {}),
}
LOOKUP = ToolDefinition(
    "lookup",
    "Finds an order.",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Lookup",
        "type": "object",
        "properties": {
            "order": {"type": "string", "title": "Order", "minLength": 2, "format": "uuid"},
            "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
            "place": {"$ref": "#/$defs/Place", "description": "Where."},
            "more": {"type": "array", "items": {"$ref": "#/$defs/Place"}, "default": []},
        },
        "required": ["order"],
        "$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    },
)
CLOSED = ToolDefinition("now", "", {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]})
SCHEMA = {
    "type": "object",
    "title": "Trip",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
NEWEST = {"gpt-7-x": "gpt-6.1-terra"}
"""Models that the packages do not know, and the newest model of the family that they know."""
OPEN = {"type": "object", "properties": {"city": {"type": "string", "minLength": 1, "default": "Leeds"}}}
ASKED = (Request((Question("Où est ‘A-17’? \n"),), "Be brief."),)
SETTINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "usual": {"temperature": 0.3, "max_tokens": 1000},
    "all": {"temperature": 0.0, "top_p": 0.9, "max_tokens": 200_000, "presence_penalty": 0.5, "frequency_penalty": 1},
    "probabilities": {"temperature": 0, "top_logprobs": 20},
    "more": {"temperature": 0, "extra_body": {"user": "me"}},
}


def hold(name: str, *, messages: Any = ASKED, **given: Any) -> dict[str, Any]:
    """Hold our request against the packages' and return it."""
    provider, model, more = MODELS[name]
    plan = plan_of(provider, model, **more)
    package = package_of(plan_of(provider, NEWEST.get(model, model), **more))
    package.ask(messages, (200, answer(name, given.get("settings"))), **given)
    ours = codec_body(plan, messages, **given)
    theirs = {**package.bodies[0], "model": model}
    assert ours == theirs
    # Cassettes tell 1 from 1.0.
    assert json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)
    return ours


def answer(name: str, settings: Any = None) -> Any:
    """Return an answer that the package reads: a stream where it asks for one."""
    provider, model, more = MODELS[name]
    plan = plan_of(provider, model, **more)
    if plan.api == "responses":
        return response_of()
    if not codec_of(plan).build_request(ASKED, settings or {}, {}).body["stream"]:
        return answer_of(provider)
    return STREAM


STREAM = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
    b'"model":"m-1","content":[],"stop_reason":null,"stop_sequence":null,'
    b'"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"Yes."}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
    b'"usage":{"output_tokens":2}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


@pytest.mark.parametrize("settings", SETTINGS)
@walk("name", MODELS)
def test_settings(name: str, settings: str) -> None:
    hold(name, settings=SETTINGS[settings])


@walk("name", MODELS)
def test_tools(name: str) -> None:
    body = hold(name, tools=(LOOKUP, CLOSED))
    assert len(body["tools"]) == 2


@pytest.mark.parametrize("strict", [None, True, False])
@pytest.mark.parametrize("schema", [SCHEMA, OPEN], ids=["closed", "open"])
@walk("name", [name for name in MODELS if name not in ("azure llama", "azure mistral", "claude 3", "claude unknown")])
def test_answers_of_a_schema(name: str, schema: dict[str, Any], strict: bool | None) -> None:
    hold(name, answer=AnswerSchema("answer", schema, strict))


@walk("name", ["azure llama", "azure mistral", "claude 3", "claude unknown"])
def test_models_without_structured_output(name: str) -> None:
    assert not codec_of(plan_of(MODELS[name][0], MODELS[name][1], **MODELS[name][2])).known_model.structured


@walk("name", MODELS)
def test_images_follow_the_text(name: str) -> None:
    images = (Image("image/png", b"\x89PNG\r\n\x1a\n1"), Image("image/jpeg", b"\xff\xd8\xff2"))
    hold(name, messages=(Request((Question("What is this?", images),)),))


@walk("name", MODELS)
def test_a_conversation_without_instructions(name: str) -> None:
    hold(name, messages=(Request((Question(""), Question("half"))),))


EFFORTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("openai gpt-5", {"effort": "minimal", "temperature": 1, "max_tokens": 9}),
    ("openai gpt-5.1", {"effort": "high", "temperature": 1, "top_logprobs": 3}),
    ("openai gpt-5.1", {"temperature": 0.2, "top_p": 0.5}),
    ("ollama gpt-oss", {"effort": "low", "temperature": 0.2}),
    ("claude opus 5.5", {"effort": "max", "max_tokens": 900_000}),
    ("claude opus 5.5", {"thinking": {"type": "adaptive"}, "temperature": 0.1}),
    ("claude haiku 4.5", {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 3000}),
    ("claude haiku 4.5", {"thinking": {"type": "enabled", "budget_tokens": 90_000}}),
    ("claude 3", {"thinking": {"type": "enabled", "budget_tokens": 20_000}}),
)


@walk(("name", "settings"), EFFORTS)
def test_thinking(name: str, settings: dict[str, Any]) -> None:
    hold(name, settings=settings, answer=AnswerSchema("answer", SCHEMA) if name != "claude 3" else None)


def test_betas_are_a_header() -> None:
    plan = plan_of("anthropic", "claude-opus-5-5", auth_provider="oauth_token")
    package = package_of(plan)
    package.ask(ASKED, (200, answer_of("anthropic")), settings={**plan.settings, "betas": [*plan.settings["betas"]]})
    codec = codec_of(plan)
    out = codec.build_request(ASKED, plan.settings, {})
    assert out.body == package.bodies[0]
    assert out.headers["anthropic-beta"] == package.headers[0]["anthropic-beta"] == "oauth-2025-04-20"
    assert KEY not in str(out)


CALLS: dict[str, list[dict[str, Any]]] = {
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"order":  "é",\n "n": 1e5}'}},
        {"id": "c2", "type": "function", "function": {"name": "now", "arguments": ""}},
        {"id": "c3", "type": "function", "function": {"name": "now", "arguments": "[1"}},
    ]
}
SAID: dict[str, dict[str, Any]] = {
    "text": {},
    "nothing": {"content": None},
    "calls": {"content": None, **CALLS},
    "calls and text": {"content": "Let me look.", **CALLS},
    "reasoning": {"content": "Yes.", "reasoning": "Well…"},
    "reasoning content": {"content": "Yes.", "reasoning_content": "Well…"},
    "reasoning and calls": {"content": None, "reasoning": "Well…", **CALLS},
    "other reasoning and calls": {"content": None, "reasoning_content": "Well…", **CALLS},
    "tags": {"content": "So <think>a\nb</think>then <think>open"},
    "pieces": {"content": [{"type": "text", "text": "Ye"}, {"type": "reference", "id": 1}, "s."]},
    "signed call": {"content": "", "tool_calls": [{**CALLS["tool_calls"][0], "extra_content": {"google": {"s": "x"}}}]},
}
NEXT = Request((ToolResult("c1", "In Leeds."), ToolResult("c2", ""), ToolResult("c3", '{"a": 1}')), "Be brief.")


@pytest.mark.parametrize("said", SAID)
@walk("name", [name for name, (provider, _, more) in MODELS.items() if provider != "anthropic" and "api" not in more])
def test_what_was_said_goes_back(name: str, said: str) -> None:
    provider, model, more = MODELS[name]
    plan = plan_of(provider, model, **more)
    told = answer_of(provider, **SAID[said])
    package, codec = package_of(plan), codec_of(plan)
    theirs = package.ask(ASKED, (200, told))
    ours = codec.read(told)
    asked = NEXT if "tool_calls" in SAID[said] else Request((Question("And?"),), "Be brief.")
    package.ask((*ASKED, theirs, asked, theirs, asked), (200, answer_of(provider)), tools=(CLOSED,))
    assert codec_body(plan, (*ASKED, ours, asked, ours, asked), tools=(CLOSED,)) == package.bodies[1]


def reasoning(sealed: str | None, *summary: str, **more: Any) -> dict[str, Any]:
    told = [{"type": "summary_text", "text": text} for text in summary]
    return {"id": "rs_1", "type": "reasoning", "summary": told, "encrypted_content": sealed, **more}


CALL_ITEMS = [
    {
        "id": f"fc_{call['id']}",
        "type": "function_call",
        "status": "completed",
        "call_id": call["id"],
        **call["function"],
    }
    for call in CALLS["tool_calls"]
]
WORDS = [{"type": "reasoning_text", "text": "We"}, {"type": "reasoning_text", "text": "ll"}]
ITEMS: dict[str, list[dict[str, Any]]] = {
    "text": [message_item("Yes.")],
    "texts": [message_item("Yes", "", ".")],
    "a comment and an answer": [
        message_item("Let me see.", phase="commentary"),
        message_item("Yes.", id="msg_2", phase="final_answer"),
    ],
    "calls": CALL_ITEMS,
    "thoughts and calls": [reasoning("sealed"), *CALL_ITEMS],
    "a summary, text and calls": [reasoning("sealed", "First.", "Then."), message_item("I look."), *CALL_ITEMS],
    "open thoughts": [reasoning(None, content=WORDS), message_item("Yes.")],
    "a call of a namespace": [{**CALL_ITEMS[0], "namespace": "shop"}],
}


@pytest.mark.parametrize("said", ITEMS)
@walk("name", ["responses gpt-5.6", "responses gpt-6-luna"])
def test_what_was_said_goes_back_in_responses(name: str, said: str) -> None:
    provider, model, more = MODELS[name]
    plan = plan_of(provider, model, **more)
    told = response_of(*ITEMS[said])
    package, codec = package_of(plan), codec_of(plan)
    theirs = package.ask(ASKED, (200, told))
    calls = any(item["type"] == "function_call" for item in ITEMS[said])
    asked = NEXT if calls else Request((Question("And?"),), "Be brief.")
    package.ask((*ASKED, theirs, asked), (200, response_of()), tools=(CLOSED,))
    assert codec_body(plan, (*ASKED, codec.read(told), asked), tools=(CLOSED,)) == package.bodies[1]


def test_thoughts_that_the_service_does_not_know_take_all_ids_with_them() -> None:
    plan = plan_of("openai", "gpt-5.6", api="responses")
    told = response_of(reasoning(None, "First."), message_item("I look."), CALL_ITEMS[0])
    reply = codec_of(plan).read(told)
    assert reply.text == "I look."
    _, text, call = codec_body(plan, (*ASKED, reply))["input"]
    assert text == {"role": "assistant", "content": "I look."}
    assert call.keys() == {"type", "call_id", "name", "arguments"}


def test_a_model_without_encrypted_thoughts_is_asked_again_without_them() -> None:
    codec = codec_of(plan_of("openai", "gpt-5.6", api="responses"))
    sent = codec.build_request(ASKED, {}, {})
    assert sent.body["include"] == ["reasoning.encrypted_content"]
    refused = {"error": {"message": "Encrypted content is not supported with this model.", "param": "include"}}
    again = codec.fallback_request(sent, 400, refused)
    assert again is not None
    assert again.body == {name: value for name, value in sent.body.items() if name != "include"}
    assert codec.fallback_request(again, 400, refused) is None
    assert codec.fallback_request(sent, 400, {"error": {"message": "No."}}) is None


def test_what_only_chat_completions_have() -> None:
    plan = plan_of("openai", "gpt-4.1", api="responses")
    schema = {"name": "a", "schema": {"type": "object"}}
    form = {"type": "json_schema", "json_schema": schema}
    body = codec_body(plan, ASKED, {"extra_body": {"seed": 7, "response_format": form, "user": "me"}, "max_tokens": 5})
    assert body["text"] == {"format": {"type": "json_schema", **schema}}
    assert (body["user"], body["max_output_tokens"]) == ("me", 16)
    assert "seed" not in body


USES = [
    {"type": "tool_use", "id": "c1", "name": "lookup", "input": {"order": "é", "n": 1}},
    {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
    {"type": "tool_use", "id": "c3", "name": "now", "input": {}},
]
BLOCKS: dict[str, list[dict[str, Any]]] = {
    "text": [{"type": "text", "text": "Yes."}],
    "texts": [{"type": "text", "text": "Yes"}, {"type": "text", "text": ""}, {"type": "text", "text": "."}],
    "nothing": [],
    "calls": [{"type": "text", "text": "Let me look."}, *USES],
    "thoughts": [{"type": "thinking", "thinking": "Well…", "signature": "sig"}, *USES],
    "hidden thoughts": [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Yes."}],
    "unsigned thoughts": [{"type": "thinking", "thinking": "Well…", "signature": ""}, *USES],
}


@pytest.mark.parametrize("said", BLOCKS)
@walk("model", ["claude-haiku-4-5", "claude-opus-5-5", "claude-chosen"])
def test_what_claude_said_goes_back(model: str, said: str) -> None:
    plan = plan_of("anthropic", model)
    told = answer_of("anthropic", content=BLOCKS[said])
    package, codec = package_of(plan), codec_of(plan)
    settings = {"max_tokens": 100}
    theirs = package.ask(ASKED, (200, told), settings=settings)
    asked = NEXT if USES[0] in BLOCKS[said] else Request((Question("And?"),), "Be brief.")
    package.ask((*ASKED, theirs, asked), (200, answer_of("anthropic")), settings=settings, tools=(CLOSED,))
    assert codec_body(plan, (*ASKED, codec.read(told), asked), settings, (CLOSED,)) == package.bodies[1]


def test_thoughts_of_another_conversation_are_left_out_when_they_are_refused() -> None:
    plan = plan_of("anthropic", "claude-opus-5-5")
    package, codec = package_of(plan), codec_of(plan)
    settings = {"max_tokens": 100, "betas": ["one-2025-01-01"]}
    message = "messages.1: The block is bound to a different conversation prefix"
    refused = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    dropped = {"type": "thinking_dropped", "reason": "prefix_binding_mismatch", "message_index": 1, "block_index": 0}
    told = answer_of("anthropic", input_transformations=[dropped])
    theirs = package.ask(ASKED, (400, refused), (200, told), settings=settings)
    sent = codec.build_request(ASKED, settings, {})
    assert sent.body == package.bodies[0]
    again = codec.fallback_request(sent, 400, refused)
    assert again is not None
    assert again.body == package.bodies[1]
    assert again.headers["anthropic-beta"] == package.headers[1]["anthropic-beta"]
    assert codec.fallback_request(again, 400, refused) is None
    assert codec.fallback_request(sent, 429, refused) is None
    # From then on they are left out at once.
    package.ask((*ASKED, theirs, *ASKED), (200, told), settings=settings)
    later = codec.build_request((*ASKED, codec.read(told), *ASKED), settings, {})
    assert later.body == package.bodies[2]
