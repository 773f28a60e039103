"""An answer means what it meant to the providers' packages; whatever a server says, nothing else is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holodeck_action.llm import call_spans
from holodeck_action.llm.clients import codec_of
from holodeck_action.llm.codecs.codec import BrokenAnswerError
from holodeck_action.llm.errors import status_error
from holodeck_action.llm.messages import Reply, TokenProbability
from holodeck_action.llm.outcomes import parse
from tests.llm.codecs.plans import answer_of, message_item, package_of, plan_of, response_of
from tests.llm.codecs.test_requests import ASKED, BLOCKS, ITEMS, SAID, STREAM, reasoning
from tests.tables import walk

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

GPT = plan_of("openai", "gpt-4o")
CLAUDE = plan_of("anthropic", "claude-haiku-4-5")
LLAMA = plan_of("ollama", "llama3.2")
LUNA = plan_of("openai", "gpt-6-luna", api="responses")
TOKEN = {"token": "Yes", "logprob": -0.1, "bytes": None, "top_logprobs": [{"token": "No", "logprob": -2, "bytes": []}]}


def read(plan: Any, payload: Any) -> Reply:
    return codec_of(plan).read(payload)


def asked(plan: Any, payload: Any) -> ModelResponse:
    return package_of(plan).ask(ASKED, (200, payload), settings={"max_tokens": 9})


def same(ours: Reply, theirs: ModelResponse) -> None:
    assert ours.text == (theirs.text or "")
    calls = [(call.tool_call_id, call.tool_name, call.args) for call in theirs.tool_calls]
    assert [(call.id, call.name, call.args) for call in ours.calls] == calls
    assert ours.finish == theirs.finish_reason
    assert ours.model == theirs.model_name


@pytest.mark.full
@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("plan", [GPT, LLAMA], ids=["openai", "ollama"])
def test_what_is_said(plan: Any, said: str) -> None:
    payload = answer_of(plan.provider, **SAID[said])
    same(read(plan, payload), asked(plan, payload))


@walk("said", BLOCKS)
def test_what_claude_says(said: str) -> None:
    payload = answer_of("anthropic", content=BLOCKS[said])
    same(read(CLAUDE, payload), asked(CLAUDE, payload))


@walk("said", ITEMS)
def test_what_is_said_in_responses(said: str) -> None:
    payload = response_of(*ITEMS[said])
    ours = read(LUNA, payload)
    same(ours, asked(LUNA, payload))
    assert "First" not in ours.text


@walk(
    "more",
    [
        {},
        *({"status": "incomplete", "incomplete_details": {"reason": reason}} for reason in ("max_output_tokens", "x")),
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    ],
)
def test_why_a_response_ends(more: dict[str, Any]) -> None:
    payload = response_of(**more)
    same(read(LUNA, payload), asked(LUNA, payload))


@walk("reason", ["stop", "length", "tool_calls", "content_filter", "function_call", "eos", None])
def test_why_it_ends(reason: str | None) -> None:
    payload = answer_of("openai")
    payload["choices"][0]["finish_reason"] = reason
    same(read(GPT, payload), asked(GPT, payload))


@walk("reason", ["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "model_context_window_exceeded"])
def test_why_claude_ends(reason: str) -> None:
    payload = answer_of("anthropic", stop_reason=reason)
    ours = read(CLAUDE, payload)
    same(ours, asked(CLAUDE, payload))
    assert ours.refusal == ("Yes." if reason == "refusal" else None)


def test_refusals() -> None:
    payload = answer_of("openai", content=None, refusal="I will not.")
    ours, theirs = read(GPT, payload), asked(GPT, payload)
    same(ours, theirs)
    assert ours.refusal == (theirs.provider_details or {})["refusal"] == "I will not."
    item = message_item(content=[{"type": "refusal", "refusal": "I will not."}])
    ours, theirs = read(LUNA, response_of(item)), asked(LUNA, response_of(item))
    same(ours, theirs)
    assert ours.refusal == (theirs.provider_details or {})["refusal"] == "I will not."
    details = {"type": "refusal", "category": "cyber", "explanation": "Not that."}
    payload = answer_of("anthropic", content=[], stop_reason="refusal", stop_details=details)
    ours, theirs = read(CLAUDE, payload), asked(CLAUDE, payload)
    same(ours, theirs)
    assert ours.refusal == (theirs.provider_details or {})["refusal"] == "Not that."


def test_log_probabilities() -> None:
    payload = answer_of("openai")
    payload["choices"][0]["logprobs"] = {"content": [TOKEN, {**TOKEN, "top_logprobs": []}], "refusal": None}
    listed = (asked(GPT, payload).provider_details or {})["logprobs"]
    tokens = read(GPT, payload).tokens
    assert tokens == tuple(
        TokenProbability(
            each["token"], each["logprob"], tuple((o["token"], o["logprob"]) for o in each["top_logprobs"])
        )
        for each in listed
    )
    payload["choices"][0]["logprobs"] = {"content": None, "refusal": None}
    assert read(GPT, payload).tokens is None
    part = {"type": "output_text", "text": "Yes", "annotations": [], "logprobs": [TOKEN, {**TOKEN, "top_logprobs": []}]}
    assert read(LUNA, response_of(message_item(content=[part]))).tokens == tokens
    assert read(LUNA, response_of()).tokens is None


def test_a_call_without_an_id_gets_one_that_recordings_know() -> None:
    call = {"id": "", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    (made,) = read(GPT, answer_of("openai", tool_calls=[call])).calls
    assert made.id.startswith("pyd_ai_")


def event(name: str, **more: Any) -> bytes:
    import json

    return f"event: {name}\ndata: {json.dumps({'type': name, **more})}\n\n".encode()


def test_a_stream_is_one_answer() -> None:
    start, _, _ = STREAM.partition(b"event: content_block_start")
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "We"},
                {"type": "thinking_delta", "thinking": "ll"},
                {"type": "signature_delta", "signature": "sig"},
            ],
        ),
        ({"type": "redacted_thinking", "data": "x"}, []),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Y"}, {"type": "text_delta", "text": "es"}]),
        (
            {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
            [{"type": "input_json_delta", "partial_json": piece} for piece in ("", '{"a":', " 1}")],
        ),
        ({"type": "tool_use", "id": "c2", "name": "g", "input": {}}, []),
    ]
    body = start
    for place, (block, deltas) in enumerate(blocks):
        body += event("content_block_start", index=place, content_block=block)
        body += b"".join(event("content_block_delta", index=place, delta=delta) for delta in deltas)
        body += event("content_block_stop", index=place)
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    body += event("message_delta", delta=end, usage={"output_tokens": 2}) + event("message_stop")
    theirs = package_of(CLAUDE).ask(ASKED, (200, body))
    ours = read(CLAUDE, parse("text/event-stream", body))
    assert (ours.text, ours.finish, ours.model) == (theirs.text, theirs.finish_reason, theirs.model_name)
    calls = [(call.tool_call_id, call.tool_name, call.args_as_dict()) for call in theirs.tool_calls]
    assert calls == [("c1", "f", {"a": 1}), ("c2", "g", {})]
    assert [(call.id, call.name, call.args) for call in ours.calls] == [("c1", "f", '{"a": 1}'), ("c2", "g", {})]
    package = package_of(CLAUDE)
    package.ask((*ASKED, theirs), (200, answer_of("anthropic")), settings={"max_tokens": 9})
    ours_again = codec_of(CLAUDE).build_request((*ASKED, ours), {"max_tokens": 9}, {}).body
    assert ours_again["messages"] == package.bodies[0]["messages"]


def test_a_stream_of_events_is_one_response() -> None:
    items = [reasoning("sealed", "First."), *ITEMS["calls"], message_item("Yes.")]
    begun = event("response.created", sequence_number=0, response=response_of(status="in_progress", output=[]))
    items_done = b"".join(
        event("response.output_item.done", sequence_number=place, output_index=place, item=item)
        for place, item in enumerate(items)
    )
    whole = response_of(*items)
    # Some services leave the items out of the last event.
    for last in (whole, {**whole, "output": []}):
        body = begun + items_done + event("response.completed", sequence_number=9, response=last)
        assert read(LUNA, parse("text/event-stream", body)) == read(LUNA, whole)
    with pytest.raises(BrokenAnswerError, match="incomplete"):
        read(LUNA, parse("text/event-stream", begun + items_done))


WRONG: tuple[Any, ...] = (
    *(None, [], "text", 1, {}, {"choices": []}, {"choices": None}, {"choices": [None]}, {"choices": [{}]}),
    answer_of("openai", content={"text": "x"}),
    answer_of("openai", tool_calls={}),
    answer_of("openai", tool_calls=[{"id": "c", "type": "function"}]),
    answer_of("openai", tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}]),
    answer_of("openai", tool_calls=[{"type": "function", "function": {"name": "f", "arguments": "{}"}}]),
    {**answer_of("openai"), "model": None},
)


@walk("payload", WRONG)
def test_what_is_no_answer(payload: Any) -> None:
    with pytest.raises(BrokenAnswerError):
        read(GPT, payload)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whichever the package raises
        asked(GPT, payload)


@walk(
    "more",
    [
        *({"content": None}, {"content": "x"}, {"content": [{"type": "text"}]}, {"content": [{"type": "web"}]}),
        *({"content": [None]}, {"model": None}, {"stop_reason": None}),
        {"content": [{"type": "tool_use", "id": "c", "name": "f", "input": [1]}]},
    ],
)
def test_what_is_no_answer_of_claude(more: dict[str, Any]) -> None:
    with pytest.raises(BrokenAnswerError):
        read(CLAUDE, answer_of("anthropic", **more))


@walk(
    "payload",
    [
        *(None, "text", {}, response_of(output=None), response_of(output=[None]), response_of(model=None)),
        *(response_of(status=status) for status in ("failed", "in_progress", "queued", "cancelled")),
        response_of(error={"code": "server_error", "message": "No."}),
        response_of({"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}),
        response_of({"type": "function_call", "name": "f", "arguments": "{}"}),
        response_of(message_item(content=[{"type": "output_text", "text": "x", "logprobs": [1]}])),
    ],
)
def test_what_is_no_response(payload: Any) -> None:
    with pytest.raises(BrokenAnswerError):
        read(LUNA, payload)


_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 2),
        st.sampled_from(["", "text", "tool_use", "thinking", "message_start", "content_block_delta", "stop", "{}"]),
        st.sampled_from(["reasoning", "message", "function_call", "response.completed", "response.output_item.done"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    *("choices", "message", "content", "tool_calls", "function", "name", "arguments", "id", "type"),
                    *("model", "finish_reason", "stop_reason", "logprobs", "token", "text", "index", "delta", "input"),
                    *("refusal", "reasoning", "content_block", "stop_details", "input_transformations", "thinking"),
                    *("output", "response", "summary", "encrypted_content", "call_id", "phase", "incomplete_details"),
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@pytest.mark.full
@pytest.mark.parametrize("plan", [GPT, CLAUDE, LUNA], ids=["openai", "anthropic", "responses"])
@settings(max_examples=300, deadline=None, suppress_health_check=[*HealthCheck], database=None)
@given(value=_VALUES)
def test_whatever_a_server_says(plan: Any, value: Any) -> None:
    codec = codec_of(plan)
    whole = {**answer_of(plan.provider), "output": value}
    for payload in (value, whole, answer_of(plan.provider, content=value), [answer_of(plan.provider), value]):
        try:
            reply = codec.read(payload)
        except BrokenAnswerError:
            continue
        call_spans.output_messages(payload)
        codec.build_request((*ASKED, reply, *ASKED), {}, {})


CODES = {
    "ModelQuotaExceededError": "quota",
    "ModelRateLimitError": "rate_limited",
    "ModelContextWindowExceededError": "context_length",
    "ModelAuthenticationError": "authentication",
    "ModelNotFoundError": "model_not_found",
    "ModelUnavailableError": "overloaded",
    "ModelServerError": "server_error",
    "ModelRequestRejectedError": "bad_request",
}
NAMES = (
    *("insufficient_quota", "billing_hard_limit_reached", "context_length_exceeded", "model_not_found", "429"),
    *("invalid_api_key", "rate_limit_error", "overloaded_error", "billing_error", "server_is_overloaded", "other"),
)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 418, 422, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("plan", [GPT, CLAUDE], ids=["openai", "anthropic"])
def test_a_refusal_has_the_kind_that_it_had(plan: Any, status: int) -> None:
    from pydantic_ai import exceptions

    kinds = {getattr(exceptions, name): code for name, code in CODES.items()}
    bodies: list[Any] = [{"error": {"message": "No.", "type": name, "code": None}} for name in NAMES]
    bodies += [{"error": {"message": "No.", "type": "invalid_request_error", "code": name}} for name in NAMES]
    bodies += [
        {"error": {"type": "invalid_request_error", "message": message}}
        for message in ("prompt is too long: 9", "Your credit balance is too low", "Model busy, overloaded")
    ]
    bodies.append({"error": {"message": "Flagged.", "code": 403, "metadata": {"reasons": ["violence"]}}})
    for body in bodies:
        with pytest.raises(exceptions.ModelAPIError) as caught:
            package_of(plan).ask(ASKED, (status, body), settings={"max_tokens": 9})
        assert isinstance(caught.value, exceptions.ModelHTTPError)
        expected = next((code for kind, code in kinds.items() if isinstance(caught.value, kind)), "http_status")
        found = status_error(status, body, plan, str).code
        assert found == expected, body
