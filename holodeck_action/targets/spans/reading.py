"""The spans of a turn as the parts of a reply: pure, and never wrong about what nobody told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holodeck_action.results.record import Usage
from holodeck_action.targets.protocol import Reply
from holodeck_action.targets.reply import reply_from_mapping
from holodeck_action.targets.spans.conventions import (
    Work,
    asks_for_tools,
    call_of_messages,
    documents,
    is_answered,
    is_of_agent,
    model_of,
    requested_calls,
    results_of_calls,
    tool_call,
    tool_name,
    usage_of,
    work_of,
)
from holodeck_action.targets.spans.span import Span


def filled(reply: Reply, spans: Sequence[Span], max_bytes: int) -> Reply:
    """Return a reply with what it does not say itself, as far as the spans of its turn do.

    Args:
        reply: what the target said.
        spans: those of the turn.
        max_bytes: most bytes that they may add (`limits.max_response_bytes`).

    Raises:
        AgentError: they add more (`too_large`), or what no reply can hold (`bad_reply`).
    """
    told = reply_from_mapping({"response": "", **reply_parts(spans)}, max_bytes=max_bytes)
    silent = reply.retrieved_chunks is None and reply.retrieval_context is None
    return replace(
        reply,
        tool_invocations=told.tool_invocations if reply.tool_invocations is None else reply.tool_invocations,
        retrieved_chunks=told.retrieved_chunks if silent else reply.retrieved_chunks,
        retrieval_context=told.retrieval_context if silent else reply.retrieval_context,
        usage=_usage(reply.usage, told.usage),
        model=told.model if reply.model is None else reply.model,
    )


def reply_parts(spans: Sequence[Span]) -> dict[str, Any]:
    """Return keys of a reply, as JSON values: `tool_invocations`, `retrieved_chunks`, `usage` and `model`, if told."""
    turn = _Turn(spans)
    if not turn.ordered:
        return {}
    found: dict[str, Any] = {}
    calls = turn.calls()
    if calls is not None:
        found["tool_invocations"] = calls
    # What a reranker leaves is what the model gets to see.
    listed = [documents(span) for span in turn.outermost("reranking") or turn.outermost("retrieval")]
    if listed and None not in listed:
        found["retrieved_chunks"] = [chunk for each in listed for chunk in each or ()]
    used = turn.used()
    if used:
        found["usage"] = used
    models = sorted(turn.of("model"), key=lambda span: span.end_ns)
    answered = [name for span in models if (name := model_of(span)) is not None]
    if answered:
        found["model"] = answered[-1]
    return found


def _usage(said: Usage | None, told: Usage | None) -> Usage | None:
    if said is None or told is None:
        return told if said is None else said
    if said.prompt_tokens is not None or said.completion_tokens is not None:
        return said
    return told if said.cost_usd is None else replace(told, cost_usd=said.cost_usd, models=(), estimated=said.estimated)


class _Turn:
    """The spans of a turn, and how they stand to each other."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._by_id = {span.id: span for span in spans}
        named = (span for span in self._by_id.values() if is_of_agent(span))
        self.ordered = sorted(named, key=lambda span: (span.start_ns, span.end_ns, span.id))

    def of(self, work: Work) -> list[Span]:
        """Return the spans of a kind of work, in order of their start."""
        return [span for span in self.ordered if work_of(span) == work]

    def calls(self) -> list[dict[str, Any]] | None:
        """Return the tool calls; None where models asked for some of which nothing else tells."""
        models = self.of("model")
        requested = [call for span in models for call in requested_calls(span)]
        tools = self.outermost("tool")
        if tools:
            by_id = {call_id: arguments for call_id, _, arguments in requested if call_id}
            return [tool_call(span, by_id) for span in tools]
        asking = [span for span in models if asks_for_tools(span)]
        results = {call_id: result for span in models for call_id, result in results_of_calls(span)}
        made = {call_id: call for call_id, *call in requested if call_id in results}
        if asking and (not made or not all(any(requested_calls(span)) for span in asking)):
            return None
        return [call_of_messages(name, arguments, results[call_id]) for call_id, (name, arguments) in made.items()]

    def used(self) -> list[dict[str, Any]]:
        """Return what each model took: the innermost spans that tell it, since those around them repeat the sum."""
        telling = {span.id: used for span in self.ordered if (used := usage_of(span)) is not None}
        repeating = {outer.id for inner in telling for outer in self._around(self._by_id[inner])}
        innermost = [span for span in self.ordered if span.id in telling and span.id not in repeating]
        counted = [span for span in innermost if not _is_told_twice(span, innermost, telling)]
        sums: dict[str | None, dict[str, Any]] = {}
        for span in counted:
            used = telling[span.id]
            before = sums.get(used["model"])
            sums[used["model"]] = used if before is None else _added(before, used)
        covered = telling.keys() | repeating
        for span in self.of("model"):
            within = any(outer.id in covered for outer in self._around(span))
            if span.id not in covered and not within and span.error is None and is_answered(span):
                # A model answered, and nobody says what that took.
                sums[model_of(span)] = {"model": model_of(span)}
        return list(sums.values())

    def outermost(self, work: Work) -> list[Span]:
        """Return the spans of a kind of work, without those inside of one for the same: two libraries tell of it."""
        spans = self.of(work)
        named = {span.id: tool_name(span) if work == "tool" else work for span in spans}
        return [
            span
            for span in spans
            if not any(named.get(outer.id) == named[span.id] for outer in self._around(span))
            and not any(_wraps(other, span) and named[other.id] == named[span.id] for other in spans)
        ]

    def _around(self, span: Span) -> Iterator[Span]:
        seen = {span.id}
        parent = span.parent
        while parent is not None and parent in self._by_id and parent not in seen:
            seen.add(parent)
            yield self._by_id[parent]
            parent = self._by_id[parent].parent


def _is_told_twice(span: Span, spans: Sequence[Span], telling: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether another library tells of the same call: it took longer there, with the same tokens."""
    return any(_wraps(other, span) and _counts(telling[other.id]) == _counts(telling[span.id]) for other in spans)


def _counts(used: Mapping[str, Any]) -> tuple[Any, Any]:
    return used["prompt_tokens"], used["completion_tokens"]


def _added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Sum up what two calls of a model took."""
    found: dict[str, Any] = {"model": one["model"]}
    for key in ("prompt_tokens", "completion_tokens", "cost_usd"):
        found[key] = None if None in (one[key], other[key]) else one[key] + other[key]
    for key in ("cached_tokens", "reasoning_tokens"):
        # Who tells them at all often leaves out a zero.
        known = [each[key] for each in (one, other) if each[key] is not None]
        found[key] = sum(known) if known else None
    return found


def _wraps(outer: Span, inner: Span) -> bool:
    if outer.scope == inner.scope or (outer.start_ns, outer.end_ns) == (inner.start_ns, inner.end_ns):
        return False
    return outer.start_ns <= inner.start_ns and inner.end_ns <= outer.end_ns
