"""The reply mapping, read strictly."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.record import RetrievedChunk, ToolInvocation
from holodeck_action.targets.protocol import Reply
from holodeck_action.targets.reply import reply_from_mapping
from tests.tables import walk


def read(value: object, max_bytes: int = 10_000) -> Reply:
    return reply_from_mapping(value, max_bytes=max_bytes)


def refusal(value: object, max_bytes: int = 10_000) -> AgentError:
    with pytest.raises(AgentError) as caught:
        read(value, max_bytes)
    return caught.value


def test_text_is_a_reply() -> None:
    assert read("hello") == Reply("hello")


def test_an_empty_answer_is_an_answer() -> None:
    assert read("") == read({"response": ""}) == Reply("")


def test_every_entry_is_read() -> None:
    reply = read(
        {
            "response": "7 days",
            "tool_invocations": [
                {"name": "search", "args": {"q": "refund", "n": 2}, "result": {"hits": [1]}, "bytes": 40}
                | {"duration_ms": 12.5, "error": "slow"},
                {"name": "stop"},
            ],
            "retrieval_context": ["policy text"],
            "retrieved_chunks": [{"id": "policy-3", "text": "chunk text", "score": 0.5}, {"id": 7}],
        }
    )
    assert reply == Reply(
        "7 days",
        (
            ToolInvocation("search", {"q": "refund", "n": 2}, {"hits": [1]}, 40, 12.5, "slow"),
            ToolInvocation("stop"),
        ),
        ("policy text",),
        (RetrievedChunk("policy-3", "chunk text", 0.5), RetrievedChunk("7")),
    )


def test_null_means_absent() -> None:
    entries = dict.fromkeys(("tool_invocations", "retrieval_context", "retrieved_chunks"))
    assert read({"response": "a", **entries}) == Reply("a")


@pytest.mark.parametrize(
    ("chunks", "context"),
    [
        ([{"id": "a", "text": "one"}, {"id": "b"}, {"id": "c", "text": "three"}], ("one", "three")),
        ([{"id": "a"}], None),
        ([], ()),
    ],
)
def test_without_a_context_the_chunks_are_the_context(chunks: list[object], context: tuple[str, ...] | None) -> None:
    assert read({"response": "a", "retrieved_chunks": chunks}).retrieval_context == context


def test_a_given_context_wins_over_the_chunks() -> None:
    value = {"response": "a", "retrieval_context": [], "retrieved_chunks": [{"id": "a", "text": "one"}]}
    assert read(value).retrieval_context == ()


def test_a_structured_answer_becomes_its_json_text_in_the_given_order() -> None:
    assert read({"response": {"b": 1, "a": ["é", None, True]}}).response == '{"b": 1, "a": ["é", null, true]}'
    assert read({"response": [1.5, {"a": ""}]}).response == '[1.5, {"a": ""}]'


@pytest.mark.parametrize(
    ("result", "size"), [("é", 2), ({"a": "é"}, len('{"a": "é"}'.encode())), ([1, 2], 6), (None, None), (False, 5)]
)
def test_the_size_of_a_result_is_counted_when_it_is_not_given(result: object, size: int | None) -> None:
    (call,) = read({"response": "", "tool_invocations": [{"name": "t", "result": result}]}).tool_invocations or ()
    assert call.bytes == size


def test_lone_surrogates_are_replaced_everywhere_and_nul_stays() -> None:
    text = "a\ud800b\0"
    reply = read(
        {
            "response": text,
            "tool_invocations": [{"name": text, "args": {text: text}, "result": [text], "error": text}],
            "retrieval_context": [text],
            "retrieved_chunks": [{"id": text, "text": text}],
        }
    )
    clean = "a\ufffdb\0"
    assert reply == Reply(
        clean,
        (
            ToolInvocation(
                clean, {clean: clean}, [clean], len(json.dumps([clean], ensure_ascii=False).encode()), None, clean
            ),
        ),
        (clean,),
        (RetrievedChunk(clean, clean),),
    )


@walk(
    ("value", "field", "sentence"),
    [
        (None, "the reply", "the reply must be text or an object with `response`, not null"),
        (["a"], "the reply", "the reply must be text or an object with `response`, not a list"),
        (3, "the reply", "the reply must be text or an object with `response`, not a number"),
        ({}, "response", "the reply has no `response`"),
        ({"response": None}, "response", "response must be text, an object or a list, not null"),
        ({"response": 42}, "response", "response must be text, an object or a list, not a number"),
        ({"response": True}, "response", "response must be text, an object or a list, not true or false"),
        ({"response": b"a"}, "response", "response is of type bytes, which JSON cannot hold"),
        ({"respons": "a"}, "the reply", "unknown key `respons` (did you mean `response`?)"),
        (
            {"response": "a", "cost": 1},
            "the reply",
            "unknown key `cost` (did you mean `cost_usd`?)",
        ),
        (
            {"response": "a", "tool_invocations": {"name": "x"}},
            "tool_invocations",
            "tool_invocations must be a list, not an object",
        ),
        (
            {"response": "a", "tool_invocations": ["x"]},
            "tool_invocations[0]",
            "tool_invocations[0] must be an object, not text",
        ),
        (
            {"response": "a", "tool_invocations": [{"name": "x"}, {"args": {}}]},
            "tool_invocations[1].name",
            "tool_invocations[1].name must be text, not null",
        ),
        (
            {"response": "a", "tool_invocations": [{"name": ""}]},
            "tool_invocations[0].name",
            "tool_invocations[0].name must not be empty",
        ),
        (
            {"response": "a", "tool_invocations": [{"name": "x", "arguments": {}}]},
            "tool_invocations[0]",
            "tool_invocations[0]: unknown key `arguments` (did you mean `args`?)",
        ),
        (
            {"response": "a", "tool_invocations": [{"name": "x", "args": [1]}]},
            "tool_invocations[0].args",
            "tool_invocations[0].args must be an object, not a list",
        ),
        (
            {"response": "a", "tool_invocations": [{"name": "x", "args": {"a": [float("nan")]}}]},
            "tool_invocations",
            "tool_invocations[0].args.a[0] is nan, which JSON cannot hold",
        ),
        (
            {"response": "a", "tool_invocations": [{"name": "x", "result": 10**5000}]},
            "tool_invocations",
            "tool_invocations[0].result is an integer of more than 3000 digits",
        ),
        (
            {"response": "a", "tool_invocations": [{"name": "x", "bytes": -1}]},
            "tool_invocations[0].bytes",
            "tool_invocations[0].bytes must be from 0 to 9007199254740992",
        ),
        (
            {"response": "a", "tool_invocations": [{"name": "x", "bytes": True}]},
            "tool_invocations[0].bytes",
            "tool_invocations[0].bytes must be a whole number, not true or false",
        ),
        (
            {"response": "a", "tool_invocations": [{"name": "x", "duration_ms": -0.5}]},
            "tool_invocations[0].duration_ms",
            "tool_invocations[0].duration_ms must be from 0 to 9007199254740992",
        ),
        (
            {"response": "a", "tool_invocations": [{"name": "x", "error": 5}]},
            "tool_invocations[0].error",
            "tool_invocations[0].error must be text, not a number",
        ),
        (
            {"response": "a", "retrieval_context": "text"},
            "retrieval_context",
            "retrieval_context must be a list, not text",
        ),
        (
            {"response": "a", "retrieval_context": ["a", 2]},
            "retrieval_context[1]",
            "retrieval_context[1] must be text, not a number",
        ),
        (
            {"response": "a", "retrieved_chunks": [{"text": "t"}]},
            "retrieved_chunks[0].id",
            "retrieved_chunks[0].id must be text or a whole number, not null",
        ),
        (
            {"response": "a", "retrieved_chunks": [{"id": True}]},
            "retrieved_chunks[0].id",
            "retrieved_chunks[0].id must be text or a whole number, not true or false",
        ),
        (
            {"response": "a", "retrieved_chunks": [{"id": "a", "score": 10**400}]},
            "retrieved_chunks[0].score",
            "retrieved_chunks[0].score must be a finite number",
        ),
        (
            {"response": "a", "retrieved_chunks": [{"id": "a", "score": "0.5"}]},
            "retrieved_chunks[0].score",
            "retrieved_chunks[0].score must be a number, not text",
        ),
    ],
)
def test_a_broken_reply_names_the_field_and_what_it_should_be(value: object, field: str, sentence: str) -> None:
    error = refusal(value)
    assert (error.code, error.message, error.context["field"]) == ("bad_reply", sentence, field)


def test_messages_never_carry_a_hostile_key_whole() -> None:
    message = refusal({"response": "a", "k\x1b[2J" + "x" * 5000: 1}).message
    assert len(message) < 250
    assert "\x1b" not in message


def test_a_reply_may_be_exactly_as_long_as_the_limit() -> None:
    assert read("é" * 50, max_bytes=100).response == "é" * 50
    error = refusal("é" * 50 + "a", max_bytes=100)
    assert error.code == "too_large"
    assert error.message == (
        "the reply holds more than 100 bytes, the most that limits.max_response_bytes allows; it overflows at response"
    )


def test_a_large_integer_counts_a_byte_for_every_four_bits() -> None:
    """And one byte more; the answer itself counts none."""
    largest = 16**100 - 1
    assert read({"response": [largest]}, max_bytes=101).response == f"[{largest}]"
    assert refusal({"response": [largest]}, max_bytes=100).code == "too_large"


@walk(
    "entries",
    [
        {"tool_invocations": [{"name": "x", "result": "r" * 100}]},
        {"tool_invocations": [{"name": "x", "args": {"a" * 100: 1}}]},
        {"tool_invocations": [{"name": "x", "result": [1] * 100}]},
        {"tool_invocations": [{"name": "x", "error": "e" * 100}]},
        {"retrieval_context": ["c" * 60, "c" * 60]},
        {"retrieved_chunks": [{"id": "i", "text": "t" * 100}]},
    ],
)
def test_the_limit_covers_the_whole_reply(entries: dict[str, object]) -> None:
    assert refusal({"response": "", **entries}, max_bytes=100).code == "too_large"


def test_shared_parts_cannot_add_up_without_bound() -> None:
    bomb: list[object] = ["x"]
    for _ in range(90):
        bomb = [bomb] * 10
    assert refusal({"response": "", "tool_invocations": [{"name": "x", "result": bomb}]}).code == "too_large"


def test_nesting_has_a_bound() -> None:
    circle: list[object] = []
    circle.append(circle)
    error = refusal({"response": "", "tool_invocations": [{"name": "x", "result": circle}]})
    assert error.code == "bad_reply"
    assert error.message.endswith("is nested more than 100 levels deep or contains itself")


def json_values(text: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
        lambda children: st.lists(children, max_size=4) | st.dictionaries(text, children, max_size=4),
        max_leaves=12,
    )


@given(json_values(st.text()), st.dictionaries(st.text(), json_values(st.text()), max_size=4))
def test_any_json_value_passes_through_a_tool_call_unchanged(result: object, args: dict[str, object]) -> None:
    value = {"response": "", "tool_invocations": [{"name": "t", "args": args, "result": result}]}
    (call,) = read(json.loads(json.dumps(value)), max_bytes=10**6).tool_invocations or ()
    assert (call.args, call.result) == (args, result)


@given(json_values(st.text(st.characters())))
def test_any_json_value_is_a_reply_that_utf8_can_hold_or_a_bad_reply(value: object) -> None:
    for candidate in (value, {"response": value}, {"response": "a", "tool_invocations": value}):
        code = None
        try:
            repr(read(candidate, max_bytes=10**6)).encode()
        except AgentError as error:
            code = error.code
        assert code in (None, "bad_reply")


@pytest.mark.full
def test_two_threads_may_be_the_first_to_read_a_type() -> None:
    """msgspec shows a type to other threads before it knows all of its fields."""
    code = """
import threading
from msgspec import Struct
from holodeck_action.targets.shapes import convert_entries

second = threading.Thread(target=lambda: convert_entries({"text": "b"}, Entries))

def text_type():
    if second.ident is None:
        second.start()
        second.join(0.2)
    return str

class Inner(Struct):
    text: "text_type()"

class Entries(Struct):
    inner: Inner | None = None
    text: str = ""

convert_entries({"text": "a"}, Entries)
second.join()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
