"""The spans of a turn as the parts of a reply: pure, and never wrong about what nobody told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from holodeck_action.extensions.frameworks.spans.conventions import (
    Work,
    call_of_messages,
    documents,
    is_of_agent,
    is_of_embedding,
    model_of,
    tool_call,
    tool_name,
    usage_of,
    work_of,
)
from holodeck_action.extensions.frameworks.spans.model_answers import (
    answer_of,
    is_answered,
    requested_calls,
    results_of_calls,
)
from holodeck_action.extensions.frameworks.spans.span import Span
from holodeck_action.record.record import Usage
from holodeck_action.targets.protocol import Reply
from holodeck_action.targets.reply import reply_from_mapping


def filled(reply: Reply, parts: Mapping[str, Any], max_bytes: int) -> Reply:
    """Return a reply with what it does not say itself, as far as the spans of its turn do.

    Args:
        reply: what the target said.
        parts: what the spans say, see `reply_parts`.
        max_bytes: most bytes that they may add (`limits.max_response_bytes`).

    Raises:
        AgentError: they add more (`too_large`), or what no reply can hold (`bad_reply`).
    """
    told = reply_from_mapping({"response": "", **parts}, max_bytes=max_bytes)
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
        """Return the tool calls; None if they are not known.

        Without spans of tools the models' answers tell: all must be readable, and each call that one asks for must have
        a result, which a later call gives to the model.
        """
        models = [span for span in self.of("model") if not is_of_embedding(span)]
        requested = [call for span in models for call in requested_calls(span)]
        tools = self.outermost("tool")
        if tools:
            by_id = {call_id: arguments for call_id, _, arguments in requested if call_id}
            return [tool_call(span, by_id) for span in tools]
        answers = [answer_of(span) for span in models]
        if "unreadable" in answers or not {"text", "tools"}.intersection(answers):
            return None
        asking = [span for span, answer in zip(models, answers, strict=True) if answer == "tools"]
        results = {call_id: result for span in models for call_id, result in results_of_calls(span)}
        made = {call_id: call for call_id, *call in requested}
        if not made.keys() <= results.keys() or not all(any(requested_calls(span)) for span in asking):
            return None
        return [call_of_messages(name, arguments, results[call_id]) for call_id, (name, arguments) in made.items()]

    def used(self) -> list[dict[str, Any]]:
        """Return what each model took: the innermost spans that tell it, since those around them repeat the sum."""
        telling = {span.id: used for span in self.ordered if (used := usage_of(span)) is not None}
        repeating = self._enclosing(telling)
        innermost = [span for span in self.ordered if span.id in telling and span.id not in repeating]
        # Another library tells of the same call: it took longer there, with the same tokens.
        twice = _wrapped(innermost, {span.id: _counts(telling[span.id]) for span in innermost})
        counted = [span for span in innermost if span.id not in twice]
        sums: dict[str | None, dict[str, Any]] = {}
        for span in counted:
            used = telling[span.id]
            before = sums.get(used["model"])
            sums[used["model"]] = used if before is None else _added(before, used)
        models = self.of("model")
        covered = dict.fromkeys(telling.keys() | repeating, "covered")
        within = self._inside(covered, dict.fromkeys((span.id for span in models), "covered"))
        for span in models:
            if span.id not in covered and span.id not in within and span.error is None and is_answered(span):
                # A model answered, and nobody says what that took.
                sums[model_of(span)] = {"model": model_of(span)}
        return list(sums.values())

    def outermost(self, work: Work) -> list[Span]:
        """Return the spans of a kind of work, without those inside of one for the same: two libraries tell of it."""
        spans = self.of(work)
        named = {span.id: tool_name(span) if work == "tool" else work for span in spans}
        repeated = self._inside(named, named) | _wrapped(spans, named)
        return [span for span in spans if span.id not in repeated]

    def _enclosing(self, inner: Iterable[str]) -> set[str]:
        """Return the ids of all spans that are around some."""
        found: set[str] = set()
        for start in inner:
            parent = self._by_id[start].parent
            while parent in self._by_id and parent not in found:
                found.add(parent)
                parent = self._by_id[parent].parent
        return found

    def _inside(self, marks: Mapping[str, str], looked_for: Mapping[str, str]) -> set[str]:
        """Return the ids of spans that are inside of one with the mark that is looked for.

        Args:
            marks: marks of spans by their ids.
            looked_for: for some spans, the mark of those around them.
        """
        inner: dict[str | None, list[str]] = {}
        for span in self._by_id.values():
            inner.setdefault(span.parent if span.parent in self._by_id else None, []).append(span.id)
        around: Counter[str] = Counter()
        found, seen = set(), set()
        # Those in a ring have none around all of them.
        path: list[tuple[str, bool]] = [(each, True) for each in (*self._by_id, *inner.get(None, ()))]
        while path:
            each, enters = path.pop()
            mark = marks.get(each)
            if not enters:
                around[mark or ""] -= 1
            elif each not in seen:
                seen.add(each)
                if around[looked_for.get(each, "")]:
                    found.add(each)
                if mark is not None:
                    around[mark] += 1
                    path.append((each, False))
                path += ((child, True) for child in inner.get(each, ()))
        return found


def _wrapped(spans: Iterable[Span], marks: Mapping[str, Hashable]) -> set[str]:
    """Return the ids of spans within the time of another one with the same mark, which another library made."""
    by_mark: dict[Hashable, list[Span]] = {}
    for span in spans:
        by_mark.setdefault(marks[span.id], []).append(span)
    found = set()
    for alike in by_mark.values():
        alike.sort(key=lambda span: (span.start_ns, -span.end_ns))
        # The two that end last of those that began before, of different libraries: one of them is another one's.
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
