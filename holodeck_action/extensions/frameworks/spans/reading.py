"""Reads a reply's tool calls, retrieved chunks, usage and model from a turn's spans; leaves out incomplete data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from holodeck_action.extensions.frameworks.spans.conventions import (
    Work,
    call_id,
    ends_loop,
    follows_convention,
    is_embedding,
    message_call,
    model_of,
    retrieved_documents,
    tool_call,
    tool_name,
    usage_of,
    work_kind,
)
from holodeck_action.extensions.frameworks.spans.model_answers import (
    answer_kind,
    call_results,
    has_answer,
    requested_calls,
)
from holodeck_action.extensions.frameworks.spans.span import Span
from holodeck_action.record.record import Usage
from holodeck_action.targets.protocol import Reply
from holodeck_action.targets.reply import reply_from_mapping


def fill_reply(reply: Reply, reply_fields: Mapping[str, Any], max_bytes: int) -> Reply:
    """Return a reply with missing fields filled in from the spans of its turn.

    Args:
        reply: the target's reply.
        reply_fields: fields of a reply that were read from the spans; see `reply_parts`.
        max_bytes: maximum bytes that these fields may add (`limits.max_response_bytes`).

    Raises:
        AgentError: the fields are too large (code `too_large`), or not valid in a reply (`bad_reply`).
    """
    facts = reply_from_mapping({"response": "", **reply_fields}, max_bytes=max_bytes)
    silent = reply.retrieved_chunks is None and reply.retrieval_context is None
    return replace(
        reply,
        tool_invocations=facts.tool_invocations if reply.tool_invocations is None else reply.tool_invocations,
        retrieved_chunks=facts.retrieved_chunks if silent else reply.retrieved_chunks,
        retrieval_context=facts.retrieval_context if silent else reply.retrieval_context,
        usage=_merge_usage(reply.usage, facts.usage),
        model=facts.model if reply.model is None else reply.model,
    )


def reply_parts(spans: Sequence[Span]) -> dict[str, Any]:
    """Return `tool_invocations`, `retrieved_chunks`, `usage` and `model`, if complete, as JSON values."""
    turn = _Turn(spans)
    if not turn.ordered:
        return {}
    found: dict[str, Any] = {}
    tool_calls = turn.tool_calls()
    if tool_calls is not None:
        found["tool_invocations"] = tool_calls
    # The model sees the output of a reranker, not of the retrieval before it.
    listed = [
        retrieved_documents(span) for span in turn.outermost_spans("reranking") or turn.outermost_spans("retrieval")
    ]
    if listed and None not in listed:
        found["retrieved_chunks"] = [chunk for each in listed for chunk in each or ()]
    usage = turn.model_usage()
    if usage:
        found["usage"] = usage
    models = sorted(turn.spans_of("model"), key=lambda span: span.end_ns)
    answered = [name for span in models if (name := model_of(span)) is not None]
    if answered:
        found["model"] = answered[-1]
    return found


def _merge_usage(reported_usage: Usage | None, traced_usage: Usage | None) -> Usage | None:
    if reported_usage is None or traced_usage is None:
        return traced_usage if reported_usage is None else reported_usage
    if reported_usage.prompt_tokens is not None or reported_usage.completion_tokens is not None:
        return reported_usage
    return (
        traced_usage
        if reported_usage.cost_usd is None
        else replace(traced_usage, cost_usd=reported_usage.cost_usd, models=(), estimated=reported_usage.estimated)
    )


class _Turn:
    """The spans of a turn, with their nesting."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._by_id = {span.id: span for span in spans}
        named = (span for span in self._by_id.values() if follows_convention(span))
        self.ordered = sorted(named, key=lambda span: (span.start_ns, span.end_ns, span.id))

    def spans_of(self, kind: Work) -> list[Span]:
        """Return the spans of a kind of work, ordered by start."""
        return [span for span in self.ordered if work_kind(span) == kind]

    def tool_calls(self) -> list[dict[str, Any]] | None:
        """Return the tool calls; None if they are unknown.

        If there are no spans of tools, the calls come from the models' answers: all answers must be readable, and each
        requested call must have a result in the input of a later model call.
        """
        models = [span for span in self.spans_of("model") if not is_embedding(span)]
        requested = [call for span in models for call in requested_calls(span)]
        tools = self.outermost_spans("tool")
        if tools:
            pairs = _requests_of(tools, requested)
            return [tool_call(span, arguments) for span, arguments in pairs if not ends_loop(span)]
        answers = [answer_kind(span) for span in models]
        if "unreadable" in answers or not {"text", "tools"}.intersection(answers):
            return None
        asking = [span for span, answer in zip(models, answers, strict=True) if answer == "tools"]
        results = {name: result for span in models for name, result in call_results(span)}
        made = {name: call for name, *call in requested}
        if not made.keys() <= results.keys() or not all(any(requested_calls(span)) for span in asking):
            return None
        return [message_call(name, arguments, results[made_id]) for made_id, (name, arguments) in made.items()]

    def model_usage(self) -> list[dict[str, Any]]:
        """Return the usage of each model, summed over the innermost spans with usage, since outer spans repeat it."""
        telling = {span.id: usage for span in self.ordered if (usage := usage_of(span)) is not None}
        repeating = self._ancestors(telling)
        innermost = [span for span in self.ordered if span.id in telling and span.id not in repeating]
        # A span of another library about the same call encloses it in time and has the same tokens.
        twice = _time_duplicate_ids(innermost, {span.id: _token_counts(telling[span.id]) for span in innermost})
        counted = [span for span in innermost if span.id not in twice]
        sums: dict[str | None, dict[str, Any]] = {}
        for span in counted:
            usage = telling[span.id]
            before = sums.get(usage["model"])
            sums[usage["model"]] = usage if before is None else _add_usage(before, usage)
        models = self.spans_of("model")
        covered = dict.fromkeys(telling.keys() | repeating, "covered")
        within = self._nested_span_ids(covered, dict.fromkeys((span.id for span in models), "covered"))
        for span in models:
            if span.id not in covered and span.id not in within and span.error is None and has_answer(span):
                # A model answered without reporting its usage.
                sums[model_of(span)] = {"model": model_of(span)}
        return list(sums.values())

    def outermost_spans(self, kind: Work) -> list[Span]:
        """Return the spans of a kind of work, without duplicates that a second library creates inside them."""
        spans = self.spans_of(kind)
        named = {span.id: tool_name(span) if kind == "tool" else kind for span in spans}
        repeated = self._nested_span_ids(named, named) | _time_duplicate_ids(spans, named)
        return [span for span in spans if span.id not in repeated]

    def _ancestors(self, span_ids: Iterable[str]) -> set[str]:
        """Return the ids of all ancestors of the given spans."""
        found: set[str] = set()
        for start in span_ids:
            parent = self._by_id[start].parent
            while parent in self._by_id and parent not in found:
                found.add(parent)
                parent = self._by_id[parent].parent
        return found

    def _nested_span_ids(self, marks: Mapping[str, str], wanted_marks: Mapping[str, str]) -> set[str]:
        """Return the ids of the spans that have an ancestor with the mark that `wanted_marks` gives for the span.

        Args:
            marks: the spans' own marks, by span id.
            wanted_marks: the marks to look for in the spans' ancestors, by span id.
        """
        inner: dict[str | None, list[str]] = {}
        for span in self._by_id.values():
            inner.setdefault(span.parent if span.parent in self._by_id else None, []).append(span.id)
        around: Counter[str] = Counter()
        found, seen = set(), set()
        # Spans in a cycle have no root, so start from every span.
        path: list[tuple[str, bool]] = [(each, True) for each in (*self._by_id, *inner.get(None, ()))]
        while path:
            each, enters = path.pop()
            mark = marks.get(each)
            if not enters:
                around[mark or ""] -= 1
            elif each not in seen:
                seen.add(each)
                if around[wanted_marks.get(each, "")]:
                    found.add(each)
                if mark is not None:
                    around[mark] += 1
                    path.append((each, False))
                path += ((child, True) for child in inner.get(each, ()))
        return found


def _requests_of(tools: Sequence[Span], requested: Sequence[tuple[str, str, Any]]) -> Iterator[tuple[Span, Any]]:
    """Yield the spans of tool calls with the arguments that a model requested; None if these are unknown.

    A span without a call id, such as that of a failed call, gets the arguments of its tool's only unmatched request.
    """
    by_id = {request_id: (name, arguments) for request_id, name, arguments in requested if request_id}
    ids = [call_id(span) for span in tools]
    others = [request for request_id, request in by_id.items() if request_id not in ids]
    unnamed = Counter(tool_name(span) for span, found in zip(tools, ids, strict=True) if found is None)
    for span, found in zip(tools, ids, strict=True):
        name = tool_name(span)
        fitting = [arguments for wanted, arguments in others if wanted == name]
        only = fitting[0] if found is None and len(fitting) == unnamed[name] == 1 else None
        yield span, by_id[found][1] if found in by_id else only


def _time_duplicate_ids(spans: Iterable[Span], marks: Mapping[str, Hashable]) -> set[str]:
    """Return the ids of spans that lie within the time of another library's span with the same mark."""
    by_mark: dict[Hashable, list[Span]] = {}
    for span in spans:
        by_mark.setdefault(marks[span.id], []).append(span)
    found = set()
    for alike in by_mark.values():
        alike.sort(key=lambda span: (span.start_ns, -span.end_ns))
        # Keep the latest ends of two libraries; at least one of them is not the span's own library.
        last: dict[str, int] = {}
        for _, group in groupby(alike, key=lambda span: (span.start_ns, span.end_ns)):
            same_time = list(group)
            for span in same_time:
                if any(end >= span.end_ns for scope, end in last.items() if scope != span.scope):
                    found.add(span.id)
            for span in same_time:
                last[span.scope] = max(span.end_ns, last.get(span.scope, span.end_ns))
                last = dict(sorted(last.items(), key=lambda each: each[1])[-2:])
    return found


def _token_counts(usage: Mapping[str, Any]) -> tuple[Any, Any]:
    return usage["prompt_tokens"], usage["completion_tokens"]


def _add_usage(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of the usage of two calls."""
    found: dict[str, Any] = {"model": first["model"], "estimated": first["estimated"] or second["estimated"]}
    for key in ("prompt_tokens", "completion_tokens", "cost_usd"):
        found[key] = None if None in (first[key], second[key]) else first[key] + second[key]
    for key in ("cached_tokens", "reasoning_tokens"):
        # Libraries often omit a zero.
        known = [each[key] for each in (first, second) if each[key] is not None]
        found[key] = sum(known) if known else None
    return found
