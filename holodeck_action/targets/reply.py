"""Parses the replies of transcripts, Python callables, commands and HTTP services.

A reply is a string, or an object with either `response` or `error`; all other keys are optional.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Struct
from msgspec.structs import asdict

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.facts import LARGEST, Sum, within_bounds
from holodeck_action.record.record import ModelUsage, RetrievedChunk, ToolInvocation, Usage
from holodeck_action.targets.protocol import Reply, ReplyError, ReplyFact
from holodeck_action.targets.shapes import (
    Amount,
    Name,
    Number,
    Schema,
    WholeNumber,
    about,
    convert_entries,
    plain_entries,
    refuse,
    refuse_type,
    schema_of,
)
from holodeck_action.text.plain import excerpt


class Invocation(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call in a reply."""

    name: Annotated[Name, about("The tool's name.")]
    args: Annotated[dict[str, Any] | None, about("Arguments of the call, by name.")] = None
    result: Annotated[Any, about("Result of the call.")] = None
    bytes: Annotated[WholeNumber | None, about("Size of the result's text in bytes of UTF-8; computed if absent.")] = (
        None
    )
    duration_ms: Annotated[Amount | None, about("Duration of the call in milliseconds.")] = None
    error: Annotated[str | None, about("The error message; null if the call succeeded.")] = None


class Chunk(Struct, frozen=True, forbid_unknown_fields=True):
    """A retrieved chunk in a reply."""

    id: Annotated[Name | int, about("Id of the chunk; a number is converted to text.")]
    text: Annotated[str | None, about("Text of the chunk.")] = None
    score: Annotated[Number | None, about("The retriever's score, on its own scale.")] = None


class UsageEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """The usage of one model in a reply."""

    model: Annotated[
        Name | None, about("The model, as `provider/name` or only its name; the reply's `model` if absent.")
    ] = None
    prompt_tokens: Annotated[WholeNumber | None, about("Tokens of all prompts, cached ones included.")] = None
    completion_tokens: Annotated[WholeNumber | None, about("Tokens of all answers, reasoning included.")] = None
    cached_tokens: Annotated[
        WholeNumber | None, about("The part of `prompt_tokens` that the provider read from its cache.")
    ] = None
    reasoning_tokens: Annotated[
        WholeNumber | None, about("The part of `completion_tokens` that the model used for reasoning.")
    ] = None
    cost_usd: Annotated[Amount | None, about("Cost of the model's calls in US dollars.")] = None
    estimated: Annotated[bool | None, about("Whether `cost_usd` is computed from list prices; false if absent.")] = None


class SpokenMessage(TypedDict):
    """A message in a reply or request; other keys are kept."""

    role: Annotated[Name, about("Role of the speaker, such as `user`, `assistant` or `tool`.")]


class Failure(Struct, frozen=True, forbid_unknown_fields=True):
    """Why there is no answer."""

    message: Annotated[Name, about("The error message, one sentence.")]
    kind: Annotated[
        Literal["agent", "infrastructure"] | None,
        about("What failed: the agent (default), or a service that it needs, such as its database."),
    ] = None


class ReplyEntries(Struct, frozen=True, forbid_unknown_fields=True):
    """The entries of a reply; a missing or null entry is unknown."""

    response: Annotated[
        str | dict[str, Any] | list[Any] | None,
        about("The answer. An object or a list is converted to JSON text."),
    ] = None
    tool_invocations: Annotated[
        list[Invocation] | None, about("The tool calls of this turn, in order; [] for none.")
    ] = None
    retrieved_chunks: Annotated[list[Chunk] | None, about("The retrieved chunks, in rank order; [] for none.")] = None
    retrieval_context: Annotated[
        list[str] | None, about("The retrieved texts; those of `retrieved_chunks` if absent.")
    ] = None
    usage: Annotated[
        UsageEntry | list[UsageEntry] | None,
        about("Usage of the models in this turn: an object, or a list with one object per model."),
    ] = None
    cost_usd: Annotated[
        Amount | None,
        about("Cost of the turn in US dollars; if absent, the sum of costs or the list price of `usage`."),
    ] = None
    model: Annotated[Name | None, about("The model that answered, as `provider/name` or only its name.")] = None
    messages: Annotated[
        list[SpokenMessage] | None,
        about("Messages that the turn adds to the conversation after its input; only the answer if absent."),
    ] = None
    metadata: Annotated[dict[str, Any] | None, about("Further facts, kept in the record.")] = None
    error: Annotated[Failure | Name | None, about("Why there is no answer; replaces `response`.")] = None
    finish_reason: Annotated[
        Name | None,
        about(
            "Why the model stopped, such as `stop`. `length`, or another word for a token limit, means that the "
            "answer is cut off, which is an error."
        ),
    ] = None
    duration_ms: Annotated[
        Amount | None,
        about("Time that the agent took for the answer, in milliseconds; the measured time if absent."),
    ] = None
    first_token_ms: Annotated[
        Amount | None,
        about("Milliseconds until the first token of the answer; as measured on a stream if absent."),
    ] = None


REPLY_KEYS = ReplyEntries.__struct_fields__
CUT_OFF = (
    "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded", "max_length",
    "token_limit", "incomplete", "truncated",
)  # fmt: skip
"""The values of `finish_reason`, in small letters, that report an answer which stops at a token limit.

Sources: the interfaces of OpenAI (also Responses), Anthropic, Gemini, Mistral, Bedrock and Cohere.
"""
_KEYS_BY_FACT: dict[ReplyFact, tuple[str, ...]] = {
    "tools": ("tool_invocations",),
    "tokens": ("usage",),
    "cost": ("cost_usd", "usage"),
    "time": ("duration_ms",),
    "first token": ("first_token_ms",),
}
"""The keys of a reply that provide each kind of data; one of them is enough."""


def missing_facts(keys: Set[object], reason: str, *, is_timed: bool = True) -> dict[ReplyFact, str]:
    """Return the kinds of data that are missing from replies with only the given keys, each with the reason.

    Args:
        keys: all keys that occur in the replies.
        reason: template of the reason, in which `{}` is replaced by the keys that could provide the data.
        is_timed: whether the run measures response times, so that replies need not contain them.
    """
    return {
        fact: reason.format(" or ".join(providers))
        for fact, providers in _KEYS_BY_FACT.items()
        if not keys & {*providers} and not (is_timed and fact == "time")
    }


def reply_schema() -> Schema:
    """Return the JSON Schema of a reply."""
    described = schema_of(ReplyEntries)
    given = {key: {"not": {"type": "null"}} for key in ("response", "error")}
    alone = [{"required": [key], "properties": {key: given[key]}} for key in given]
    definitions = described.pop("$defs")
    return {"anyOf": [{"type": "string"}, {**described, "oneOf": alone}], "$defs": definitions}


def reply_from_mapping(value: object, *, max_bytes: int) -> Reply:
    """Parse a reply.

    Args:
        value: a string, or a mapping of JSON values with the entries of `ReplyEntries`. A missing or null entry means
            that the value is unknown; an empty list, that there are no items.
        max_bytes: maximum bytes of UTF-8 in the whole reply (`limits.max_response_bytes`).

    Returns:
        The reply. Lone surrogates in it are replaced by U+FFFD. Missing values are computed where possible:
        `retrieval_context` from the texts of the chunks, `bytes` from the text of a tool's result, and costs from the
        list prices of the named models.

    Raises:
        AgentError: `bad_reply` with the path of the invalid field, or `too_large`.
    """
    given = {"response": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        refuse_type("the reply", "text or an object with `response`", value)
    plain = plain_entries(given, REPLY_KEYS, max_bytes)
    found = convert_entries(plain, ReplyEntries)
    if found.error is not None and found.response is not None:
        refuse("error", "replaces `response`: give only one of them")
    if found.error is None and "response" not in given:
        raise AgentError("the reply has no `response`", "bad_reply", {"field": "response"})
    if found.error is None and found.response is None and not is_cut_off(found.finish_reason):
        refuse_type("response", "text, an object or a list", None)
    chunks = _map_all(found.retrieved_chunks, lambda chunk: RetrievedChunk(str(chunk.id), chunk.text, chunk.score))
    texts, response = found.retrieval_context, found.response
    usages = [found.usage] if isinstance(found.usage, UsageEntry) else found.usage
    return Reply(
        response=json.dumps(response, ensure_ascii=False) if isinstance(response, dict | list) else response or "",
        tool_invocations=_map_all(found.tool_invocations, _make_invocation),
        retrieval_context=_context_of(chunks) if texts is None else tuple(texts),
        retrieved_chunks=chunks,
        usage=_total_usage(usages, found.cost_usd, found.model),
        model_ms=found.duration_ms,
        first_token_ms=found.first_token_ms,
        model=found.model or (usages[0].model if usages and len(usages) == 1 else None),
        messages=_map_all(plain.get("messages"), lambda message: message),
        metadata=found.metadata,
        error=_reply_error(found.error, found.finish_reason),
        finish_reason=found.finish_reason,
    )


def _reply_error(error: Failure | str | None, finish_reason: str | None) -> ReplyError | None:
    if error is not None:
        failure = Failure(error) if isinstance(error, str) else error
        return ReplyError(failure.message, failure.kind or "agent")
    if not is_cut_off(finish_reason):
        return None
    return ReplyError(f"finish_reason is {excerpt(str(finish_reason))}; raise the agent's token limit", "cut_off")


def is_cut_off(finish_reason: object) -> bool:
    """Return whether a finish reason reports an answer that stops at a token limit."""
    return isinstance(finish_reason, str) and finish_reason.lower() in CUT_OFF


def _map_all(values: Sequence[Any] | None, make_value: Any) -> tuple[Any, ...] | None:
    return None if values is None else tuple(map(make_value, values))


def _make_invocation(entry: Invocation) -> ToolInvocation:
    result, size = entry.result, entry.bytes
    if size is None and result is not None:
        # The size of a string, or of the JSON of any other value.
        size = len((result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)).encode())
    return ToolInvocation(**{**asdict(entry), "args": entry.args or {}, "bytes": size})


def _context_of(chunks: tuple[RetrievedChunk, ...] | None) -> tuple[str, ...] | None:
    """Return the known texts of chunks; None if `chunks` is None, or if it is not empty but no text is known."""
    if chunks is None:
        return None
    texts = tuple(chunk.text for chunk in chunks if chunk.text is not None)
    return texts if texts or not chunks else None


def _total_usage(usages: Sequence[UsageEntry] | None, cost_usd: float | None, model: str | None) -> Usage | None:
    """Return the total usage of a reply's models; None if the reply reports neither usage nor cost."""
    if usages is None:
        return None if cost_usd is None else Usage(cost_usd=cost_usd)
    used = [
        _model_usage(entry, model, f"usage[{at}]" if len(usages) > 1 else "usage") for at, entry in enumerate(usages)
    ]
    return Usage(
        prompt_tokens=_total_count("prompt_tokens", (each.prompt_tokens for each in used)),
        completion_tokens=_total_count("completion_tokens", (each.completion_tokens for each in used)),
        cost_usd=_total_cost(used) if cost_usd is None else cost_usd,
        cached_tokens=_total_count("cached_tokens", (each.cached_tokens for each in used)) if used else None,
        reasoning_tokens=_total_count("reasoning_tokens", (each.reasoning_tokens for each in used)) if used else None,
        models=tuple(used) if len(used) > 1 else (),
        estimated=cost_usd is None and _total_cost(used) is not None and any(each.estimated for each in used),
    )


def _model_usage(entry: UsageEntry, model: str | None, path: str) -> ModelUsage:
    for part, whole in (("cached_tokens", "prompt_tokens"), ("reasoning_tokens", "completion_tokens")):
        found, limit = getattr(entry, part), getattr(entry, whole)
        if found is not None and limit is not None and found > limit:
            refuse(f"{path}.{part}", f"must be at most {whole}, of which it is a part")
    named = entry.model or model
    cost = entry.cost_usd
    if cost is None and named is not None:
        from holodeck_action.llm.calls import Tokens
        from holodeck_action.llm.usage import price_of_named

        cost = price_of_named(named, Tokens(entry.prompt_tokens, entry.completion_tokens, entry.cached_tokens))
    estimated = cost is not None and (entry.cost_usd is None or bool(entry.estimated))
    return ModelUsage(**{**asdict(entry), "model": named, "cost_usd": cost, "estimated": estimated})


def _total_cost(usages: Sequence[ModelUsage]) -> float | None:
    costs = [each.cost_usd for each in usages if each.cost_usd is not None]
    return _check_sum("cost_usd", math.fsum(costs)) if len(costs) == len(usages) else None


def _total_count(name: str, counts: Iterable[int | None]) -> int | None:
    """Return the sum of counts; None if one of them is unknown."""
    found = list(counts)
    known = [count for count in found if count is not None]
    return _check_sum(name, sum(known)) if len(known) == len(found) else None


def _check_sum(name: str, total: Sum) -> Sum:
    if within_bounds(total) is None:
        refuse("usage", f"must have a total {name} of at most {LARGEST}")
    return total
