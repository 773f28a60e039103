"""Builds a conversation's turn from the spans of a trace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.extensions.frameworks.instrumentation import filter_attributes, is_relevant_event
from holodeck_action.extensions.frameworks.spans.conventions import (
    error_reason,
    first_attribute,
    follows_convention,
    is_agent,
    model_of,
    parse_text,
    tool_name,
    work_kind,
)
from holodeck_action.extensions.frameworks.spans.reading import reply_parts
from holodeck_action.extensions.frameworks.spans.span import Span
from holodeck_action.extensions.traces.conversations import LONGEST_ATTRIBUTE, MOST_ATTRIBUTES, TraceTurn
from holodeck_action.extensions.traces.span_texts import is_about_conversation, message_text, raw_text
from holodeck_action.text.plain import replace_surrogates

_SESSIONS = ("gen_ai.conversation.id", "session.id", "langfuse.session.id")
_TAGS = ("tag.tags", "langfuse.trace.tags")
_MOST_TAGS = 50
_LONGEST_NAME = 200
_LARGEST = 1 << 63
_TEXTS = (
    "gen_ai.input.", "gen_ai.output.", "gen_ai.prompt", "gen_ai.completion", "gen_ai.system_instructions",
    "gen_ai.tool.", "gen_ai.retrieval.", "llm.input_messages", "llm.output_messages", "llm.tools", "llm.prompt",
    "llm.invocation_parameters", "retrieval.", "reranker.", "embedding.", "tool.", "input.", "output.",
    "resource.telemetry.", "resource.process.",
)  # fmt: skip
"""Prefixes of attributes that turns omit: message contents, which are read elsewhere, and data about the process."""


class Observation(Struct, frozen=True):
    """A span reduced to the data of its turn, with the texts of its input and output.

    `asked` and `answered` are message texts in known formats; `given` and `returned` are the raw input and output.
    """

    span: Span
    session: str | None = None
    asked: str | None = None
    answered: str | None = None
    given: str | None = None
    returned: str | None = None
    tags: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = {}


class ReadTrace(Struct, frozen=True):
    """The turn of a trace, and the id of its session; the id is None if the trace names no session or several."""

    turn: TraceTurn
    session: str | None
    several_sessions: bool = False


def observe(span: Span) -> Observation:
    """Reduce a span, read with all attributes and events, to an `Observation`."""
    texts: dict[str, str | None] = {}
    if is_about_conversation(span):
        texts = {"asked": message_text(span, "user"), "answered": message_text(span, "assistant")}
        texts |= {"given": raw_text(span, "user"), "returned": raw_text(span, "assistant")}
    kept = tuple(event for event in span.events if is_relevant_event(event[0]))
    return Observation(
        replace(span, attributes=filter_attributes(span.attributes), events=kept),
        _read_session(span),
        **texts,
        tags=_read_tags(span),
        attributes=short_attributes({**_evaluations(span), **span.attributes}),
    )


def matters(observation: Observation) -> bool:
    """Return whether a span is about a model, an agent or a tool, or has a message."""
    return follows_convention(observation.span) or observation.asked is not None or observation.answered is not None


def read_trace(trace: str, observations: Sequence[Observation], *, complete: bool) -> ReadTrace | None:
    """Return the turn that a trace describes.

    Args:
        trace: id of the trace.
        observations: the reduced spans of the trace.
        complete: whether all spans of the trace could be read; otherwise tool calls, documents and usage are unknown.

    Returns:
        The turn; None if no span is about a model, an agent or a tool.
    """
    spans = [each.span for each in observations]
    if not any(map(matters, observations)):
        return None
    tree = _Tree(observations)
    parts = reply_parts(spans) if complete else {}
    outer = tree.outermost(lambda each: follows_convention(each.span)) or tree.ordered
    last = max(outer, key=lambda each: (each.span.end_ns, each.span.start_ns))
    sessions = {each.session for each in tree.outermost(lambda each: each.session is not None)}
    by_start, by_end = tree.ordered, tree.ordered_by_end
    models = [each.span for each in by_start if work_kind(each.span) == "model"]
    ids = {each.span.id for each in outer}
    answer = _text(_Text(each.answered, each.returned, each.span, each.span.id in ids) for each in by_end)
    # Inner spans that failed, such as calls of a model that were retried, do not decide.
    failing = [max(tree.roots, key=lambda each: (each.span.end_ns, each.span.start_ns)), last]
    failing += [each for each in by_end if answer is None and work_kind(each.span) in ("model", "other")]
    failed = _first(error_reason(each.span) for each in failing)
    turn = TraceTurn(
        trace=trace,
        start_ns=min(each.span.start_ns for each in outer),
        end_ns=last.span.end_ns,
        input=_text(_Text(each.asked, each.given, each.span, each.span.id in ids) for each in by_start),
        output=answer if failed is None else None,
        error=failed,
        tool_calls=_tuple(parts.get("tool_invocations")),
        retrieved=_tuple(parts.get("retrieved_chunks")),
        usage=_tuple(parts.get("usage")),
        model=parts.get("model"),
        models=tuple(dict.fromkeys(name for span in models if (name := model_of(span)))),
        tools=_tool_names(parts, spans),
        tags=tuple(dict.fromkeys(tag for each in by_start for tag in each.tags))[:_MOST_TAGS],
        attributes=_merge_attributes(by_start),
    )
    several = len(sessions) > 1
    return ReadTrace(turn, next(iter(sessions)) if len(sessions) == 1 else None, several)


class _Text(NamedTuple):
    """The text of a span's message, its raw text, and whether the span is an outermost one."""

    message: str | None
    raw: str | None
    span: Span
    is_outer: bool


def _text(texts: Iterable[_Text]) -> str | None:
    """Return the user's message, or the answer.

    The raw text of an outermost span comes before messages of inner spans, unless it is JSON; that of an agent, before
    all inner messages but those of models.

    Args:
        texts: the texts of each span, outer ones first.
    """
    found = [*texts]
    outer = [each for each in found if each.is_outer]
    return _first(
        [
            *(each.message for each in outer),
            *(each.raw for each in outer if isinstance(parse_text(each.raw), str)),
            *(each.message for each in found if work_kind(each.span) == "model"),
            *(each.raw for each in outer if is_agent(each.span)),
            *(each.message for each in found),
            *(each.raw for each in found),
        ]
    )


def _merge_attributes(observations: Iterable[Observation]) -> dict[str, Any]:
    """Merge the attributes of spans; if several spans have an attribute, the first span's value is used."""
    found: dict[str, Any] = {}
    for each in observations:
        for key, value in each.attributes.items():
            if len(found) < MOST_ATTRIBUTES:
                found.setdefault(key, value)
    return found


def _tool_names(reply_fields: Mapping[str, Any], spans: Iterable[Span]) -> tuple[str, ...]:
    called = [call["name"] for call in reply_fields.get("tool_invocations") or ()]
    called += [tool_name(span) for span in spans if work_kind(span) == "tool"]
    return tuple(dict.fromkeys(name[:_LONGEST_NAME] for name in called))


def _tuple(values: Any) -> tuple[Mapping[str, Any], ...] | None:
    return None if values is None else tuple(map(_plain, values))


def _plain(value: Any) -> Any:
    """Convert a value to valid JSON data; spans may have Python values, lone surrogates and huge numbers."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {replace_surrogates(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    fits = abs(value) < _LARGEST if isinstance(value, int | float) else value is None
    return value if fits else replace_surrogates(str(value))


def _first(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text is not None), None)


def _read_session(span: Span) -> str | None:
    session = first_attribute(span, _SESSIONS)
    named = isinstance(session, str | int) and not isinstance(session, bool) and str(session).strip() != ""
    return replace_surrogates(str(session))[:LONGEST_ATTRIBUTE] if named else None


def _read_tags(span: Span) -> tuple[str, ...]:
    tags = parse_text(first_attribute(span, _TAGS))
    listed = tags if isinstance(tags, list) else [tags]
    return tuple(tag.strip()[:_LONGEST_NAME] for tag in listed if isinstance(tag, str) and tag.strip())[:_MOST_TAGS]


def _evaluations(span: Span) -> dict[str, Any]:
    """Return the evaluations in a span's events as attributes: `score.NAME`, and `score.NAME.label`."""
    found = {}
    for event, values in span.events:
        if event == "gen_ai.evaluation.result":
            name = f"score.{values.get('gen_ai.evaluation.name')}"
            found[name] = values.get("gen_ai.evaluation.score.value")
            found[f"{name}.label"] = values.get("gen_ai.evaluation.score.label")
    return found


def short_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the short textual, numeric and boolean attributes that are not messages' contents."""
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(_TEXTS) or len(name) > _LONGEST_NAME or len(found) >= MOST_ATTRIBUTES:
            continue
        if isinstance(value, str):
            fits = len(value) <= LONGEST_ATTRIBUTE
        else:
            fits = isinstance(value, int | float) and math.isfinite(value) and abs(value) < _LARGEST
        if fits:
            found[name] = value
    return found


class _Tree:
    """The spans of a trace by nesting depth. Spans whose parents form a cycle are treated as roots.

    Attributes:
        ordered: the spans by depth and start.
        roots: the spans without a parent; without such ones, those whose parents are not in the trace.
        ordered_by_end: the spans by depth, the latest end first.
    """

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._by_id = {each.span.id: each for each in observations}
        self._depths: dict[str, int] = {}
        for span_id in self._by_id:
            self._store_depths(span_id)
        unique = self._by_id.values()
        self.ordered = sorted(unique, key=lambda each: (self._depth(each), each.span.start_ns, each.span.id))
        no_parent = [each for each in self.ordered if each.span.parent is None]
        self.roots = no_parent or [each for each in self.ordered if self._depth(each) == 0]
        self.ordered_by_end = sorted(unique, key=lambda each: (self._depth(each), -each.span.end_ns, each.span.id))

    def _depth(self, observation: Observation) -> int:
        return self._depths[observation.span.id]

    def _store_depths(self, span_id: str) -> None:
        path: dict[str, None] = {}
        at: str | None = span_id
        while at is not None and at in self._by_id and at not in self._depths and at not in path:
            path[at] = None
            at = self._by_id[at].span.parent
        depth = self._depths.get(at, -1) if at is not None else -1
        for each in reversed(path):
            depth += 1
            self._depths[each] = depth

    def outermost(self, is_wanted: Any) -> list[Observation]:
        """Return the spans that satisfy `is_wanted` and whose ancestors do not satisfy it, sorted by depth and
        start."""
        inside: dict[str, bool] = {}
        found = []
        for each in self.ordered:
            parent = each.span.parent if each.span.parent in inside else None
            covered = parent is not None and inside[parent]
            wanted = is_wanted(each)
            if wanted and not covered:
                found.append(each)
            inside[each.span.id] = covered or wanted
        return found
