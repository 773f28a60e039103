"""The reply that transcripts, Python callables, commands and HTTP services share: its shape, and how it is read.

A reply is a text, or an object of which only `response` is required, or `error` in its place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from holodeck_action.llm.calls import Tokens
from holodeck_action.llm.usage import price_of_named
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.facts import LARGEST, Sum, bounded
from holodeck_action.record.record import ModelUsage, RetrievedChunk, ToolInvocation, Usage
from holodeck_action.targets.protocol import Reply, ReplyError, Told
from holodeck_action.targets.shapes import (
    Choice,
    Field,
    Json,
    JsonObject,
    ListOf,
    Number,
    Object,
    OrText,
    Reader,
    Schema,
    Text,
    TextOrJson,
    Whole,
    bad,
    wrong_type,
)

_INVOCATION = Object(
    {
        "name": Field(Text(name=True), "The tool's name.", required=True),
        "args": Field(JsonObject(), "Its arguments by name."),
        "result": Field(Json(), "What it returned."),
        "bytes": Field(Whole(), "Size of the result's text in bytes of UTF-8; counted where it is not given."),
        "duration_ms": Field(Number(0.0), "How long it worked, in milliseconds."),
        "error": Field(Text(), "What went wrong; null where nothing did."),
    }
)
_CHUNK = Object(
    {
        "id": Field(
            Text(name=True, number=True), "What the chunk is known by; a number becomes its text.", required=True
        ),
        "text": Field(Text(), "Its text."),
        "score": Field(Number(), "The retriever's score, on its own scale."),
    }
)
_USAGE = Object(
    {
        "model": Field(Text(name=True), "The model, `provider/name` or its name alone; the reply's `model` if absent."),
        "prompt_tokens": Field(Whole(), "Tokens of all prompts, cached ones included."),
        "completion_tokens": Field(Whole(), "Tokens of all answers, reasoning included."),
        "cached_tokens": Field(Whole(), "Those of `prompt_tokens` that the provider read from its cache."),
        "reasoning_tokens": Field(Whole(), "Those of `completion_tokens` that the model used for reasoning."),
        "cost_usd": Field(Number(0.0), "What the model cost, in US dollars."),
    }
)
_MESSAGE = Object(
    {"role": Field(Text(name=True), "Who speaks, such as `assistant` or `tool`.", required=True)}, more=True
)
_ERROR = Object(
    {
        "message": Field(Text(name=True), "What went wrong, in one sentence.", required=True),
        "kind": Field(
            Choice(("agent", "infrastructure")),
            "Who failed: the agent (if absent), or what it needs, such as its database.",
        ),
    }
)
REPLY = Object(
    {
        "response": Field(TextOrJson(), "The answer. An object or a list becomes its JSON text."),
        "tool_invocations": Field(ListOf(_INVOCATION), "The tool calls of this turn, in order; [] for none."),
        "retrieved_chunks": Field(ListOf(_CHUNK), "The retrieved chunks, in rank order; [] for none."),
        "retrieval_context": Field(ListOf(Text()), "The retrieved texts; those of `retrieved_chunks` if absent."),
        "usage": Field(
            ListOf(_USAGE, alone=True), "What the models took for this turn: an object, or a list with one per model."
        ),
        "cost_usd": Field(
            Number(0.0), "What the turn cost, in US dollars; the sum or the list price of `usage` if absent."
        ),
        "model": Field(Text(name=True), "The model that answered, `provider/name` or its name alone."),
        "messages": Field(
            ListOf(_MESSAGE), "What the turn adds to the conversation after its input; the answer alone if absent."
        ),
        "metadata": Field(JsonObject(), "Further facts, kept in the record."),
        "error": Field(OrText(_ERROR, "message"), "Why there is no answer; in the place of `response`."),
        "duration_ms": Field(
            Number(0.0), "How long the agent worked on the answer, in milliseconds; the measured time if absent."
        ),
        "first_token_ms": Field(
            Number(0.0), "Milliseconds until the first token of the answer; as measured on a stream if absent."
        ),
    }
)
"""Every key of a reply."""
REPLY_KEYS = REPLY.keys
_TELLING: dict[Told, tuple[str, ...]] = {
    "tools": ("tool_invocations",),
    "tokens": ("usage",),
    "cost": ("cost_usd", "usage"),
    "time": ("duration_ms",),
    "first token": ("first_token_ms",),
}
"""Keys without which something is not known."""


def untold_without(keys: Set[object], because: str, *, timed: bool = True) -> dict[Told, str]:
    """Return what replies that have no other keys do not say.

    Args:
        keys: those that replies have.
        because: the reason, which names what is missing in the place of `{}`.
        timed: whether the time until an answer comes is measured, so that replies need not tell it.
    """
    return {
        what: because.format(" or ".join(told))
        for what, told in _TELLING.items()
        if not keys & {*told} and not (timed and what == "time")
    }


def reply_schema() -> Schema:
    """Return the JSON Schema of a reply."""
    described = REPLY.schema()
    given = {key: {"not": {"type": "null"}} for key in ("response", "error")}
    alone = [{"required": [key], "properties": {key: given[key]}} for key in given]
    return {"anyOf": [{"type": "string"}, {**described, "oneOf": alone}]}


def reply_from_mapping(value: object, *, max_bytes: int) -> Reply:
    """Read one reply.

    Args:
        value: text, or a mapping of JSON values with the keys of `REPLY`. Optional entries may be left out or null,
            which says nothing about them; an empty list says that there are none.
        max_bytes: most bytes of UTF-8 the whole reply may hold (`limits.max_response_bytes`).

    Returns:
        The reply. Lone surrogates are replaced by U+FFFD, NUL characters stay. Without a `retrieval_context` the
        chunks' texts are the context; without `bytes` the size of the result's text is filled in; without a cost that
        of named models is their list price.

    Raises:
        AgentError: `bad_reply` with the path of the offending field, or `too_large`.
    """
    given = {"response": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        wrong_type("the reply", "text or an object with `response`", value)
    failed = given.get("error") is not None
    if "response" not in given and not failed:
        # A misspelt key is the better explanation.
        REPLY.entries(given, "the reply", "", Reader(max_bytes))
        raise AgentError("the reply has no `response`", "bad_reply", {"field": "response"})
    if failed and given.get("response") is not None:
        bad("error", "stands in the place of `response`: give one of them")
    if not failed and given["response"] is None:
        wrong_type("response", "text, an object or a list", None)
    found = REPLY.entries(given, "the reply", "", Reader(max_bytes))
    chunks = _each(found["retrieved_chunks"], lambda chunk: RetrievedChunk(**chunk))
    texts = found["retrieval_context"]
    error = found["error"]
    used: Sequence[Mapping[str, Any]] = found["usage"] or ()
    model = found["model"] or (used[0]["model"] if len(used) == 1 else None)
    return Reply(
        response=found["response"] or "",
        tool_invocations=_each(found["tool_invocations"], _invocation),
        retrieval_context=_context_of(chunks) if texts is None else tuple(texts),
        retrieved_chunks=chunks,
        usage=_usage(found["usage"], found["cost_usd"], found["model"]),
        model_ms=found["duration_ms"],
        first_token_ms=found["first_token_ms"],
        model=model,
        messages=_each(found["messages"], lambda message: message),
        metadata=found["metadata"],
        error=None if error is None else ReplyError(error["message"], error["kind"] or "agent"),
    )


def _each(values: Sequence[Any] | None, make: Any) -> tuple[Any, ...] | None:
    return None if values is None else tuple(map(make, values))


def _invocation(entries: Mapping[str, Any]) -> ToolInvocation:
    result, size = entries["result"], entries["bytes"]
    if size is None and result is not None:
        # Of a text as the tool returned it, of another value its JSON text.
        size = len((result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)).encode())
    return ToolInvocation(**{**entries, "args": entries["args"] or {}, "bytes": size})


def _context_of(chunks: tuple[RetrievedChunk, ...] | None) -> tuple[str, ...] | None:
    """Texts of the chunks; None when nothing is known about them, empty when nothing was retrieved."""
    if chunks is None:
        return None
    texts = tuple(chunk.text for chunk in chunks if chunk.text is not None)
    return texts if texts or not chunks else None


def _usage(listed: Sequence[Mapping[str, Any]] | None, cost_usd: float | None, model: str | None) -> Usage | None:
    """Sum up what the models took; None where the reply says nothing of it."""
    if listed is None:
        return None if cost_usd is None else Usage(cost_usd=cost_usd)
    used = [
        _model_usage(entry, model, f"usage[{at}]" if len(listed) > 1 else "usage") for at, entry in enumerate(listed)
    ]
    return Usage(
        prompt_tokens=_sum("prompt_tokens", (each.prompt_tokens for each in used)),
        completion_tokens=_sum("completion_tokens", (each.completion_tokens for each in used)),
        cost_usd=_cost(used) if cost_usd is None else cost_usd,
        cached_tokens=_sum("cached_tokens", (each.cached_tokens for each in used)) if used else None,
        reasoning_tokens=_sum("reasoning_tokens", (each.reasoning_tokens for each in used)) if used else None,
        models=tuple(used) if len(used) > 1 else (),
        estimated=cost_usd is None and _cost(used) is not None and any(each.estimated for each in used),
    )


def _model_usage(entry: Mapping[str, Any], model: str | None, path: str) -> ModelUsage:
    for part, whole in (("cached_tokens", "prompt_tokens"), ("reasoning_tokens", "completion_tokens")):
        if entry[part] is not None and entry[whole] is not None and entry[part] > entry[whole]:
            bad(f"{path}.{part}", f"must be at most {whole}, of which it is a part")
    named = entry["model"] or model
    cost = entry["cost_usd"]
    if cost is None and named is not None:
        cost = price_of_named(named, Tokens(entry["prompt_tokens"], entry["completion_tokens"], entry["cached_tokens"]))
    estimated = entry["cost_usd"] is None and cost is not None
    return ModelUsage(**{**entry, "model": named, "cost_usd": cost, "estimated": estimated})


def _cost(used: Sequence[ModelUsage]) -> float | None:
    costs = [each.cost_usd for each in used if each.cost_usd is not None]
    return _within("cost_usd", math.fsum(costs)) if len(costs) == len(used) else None


def _sum(name: str, counts: Iterable[int | None]) -> int | None:
    """Sum up counts; None, unknown, where one of them is."""
    found = list(counts)
    known = [count for count in found if count is not None]
    return _within(name, sum(known)) if len(known) == len(found) else None


def _within(name: str, total: Sum) -> Sum:
    if bounded(total) is None:
        bad("usage", f"must have a sum of {name} of at most {LARGEST}")
    return total
