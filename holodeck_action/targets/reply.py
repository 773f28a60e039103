"""The reply mapping that transcripts, Python callables, commands and HTTP services share, read strictly.

A reply is text, or `{response, tool_invocations, retrieval_context, retrieved_chunks}` with only `response` required.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from holodeck_action.results.agent_errors import AgentError
from holodeck_action.results.record import RetrievedChunk, ToolInvocation
from holodeck_action.targets.protocol import Reply
from holodeck_action.text.json_values import kind_of, unknown_key
from holodeck_action.text.plain import excerpt, storable_text

REPLY_KEYS = ("response", "tool_invocations", "retrieval_context", "retrieved_chunks")
INVOCATION_KEYS = ("name", "args", "result", "bytes", "duration_ms", "error")
CHUNK_KEYS = ("id", "text", "score")

_MAX_DEPTH = 100
"""Deepest nesting of `args`, `result` and structured responses; far below what JSON writers refuse."""

_MAX_INTEGER_BITS = 10_000
"""About 3,000 digits: below the length from which the interpreter refuses to write an integer as text."""

_MAX_SIZE = 2**53
"""Largest size in bytes: the whole numbers that every JSON reader keeps exact."""

_MAX_KEY_SHOWN = 40


def without_unknown_keys(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply mapping whose lists hold known keys alone: a service may tell more."""

    def known(item: object, keys: tuple[str, ...]) -> object:
        return {key: item[key] for key in keys if key in item} if isinstance(item, Mapping) else item

    found = dict(reply)
    for name, keys in (("tool_invocations", INVOCATION_KEYS), ("retrieved_chunks", CHUNK_KEYS)):
        if isinstance(found.get(name), list):
            found[name] = [known(item, keys) for item in found[name]]
    return found


def reply_from_mapping(value: object, *, max_bytes: int) -> Reply:
    """Read one reply.

    Args:
        value: text, or a mapping `{response: text, tool_invocations: [{name, args, result, bytes, duration_ms,
            error}], retrieval_context: [text], retrieved_chunks: [{id, text, score}]}` of JSON values. Optional entries
            may be left out or null, which says nothing about them; an empty list says that there are none. An object
            or a list as response becomes its JSON text.
        max_bytes: most bytes of UTF-8 the whole reply may hold (`limits.max_response_bytes`).

    Returns:
        The reply. Lone surrogates are replaced by U+FFFD, NUL characters stay. Without a `retrieval_context` the
        chunks' texts are the context; without `bytes` the size of the result's text is filled in.

    Raises:
        AgentError: `bad_reply` with the path of the offending field, or `too_large`.
    """
    entries = _object({"response": value} if isinstance(value, str) else value, "the reply", REPLY_KEYS)
    if "response" not in entries:
        raise AgentError("the reply has no `response`", "bad_reply", {"field": "response"})
    reader = _Reader(max_bytes)
    response = _response(entries["response"], reader)
    called = _list(entries.get("tool_invocations"), "tool_invocations")
    invocations = None
    if called is not None:
        invocations = tuple(
            _invocation(item, f"tool_invocations[{index}]", reader) for index, item in enumerate(called)
        )
    listed = _list(entries.get("retrieved_chunks"), "retrieved_chunks")
    chunks = None
    if listed is not None:
        chunks = tuple(_chunk(item, f"retrieved_chunks[{index}]", reader) for index, item in enumerate(listed))
    context = _context_of(chunks)
    texts = _list(entries.get("retrieval_context"), "retrieval_context")
    if texts is not None:
        context = tuple(reader.text(text, f"retrieval_context[{index}]") for index, text in enumerate(texts))
    return Reply(response, invocations, context, chunks)


class _Reader:
    """Reads JSON values into plain ones, counting their size so that shared or repeated parts cannot add up."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes

    def text(self, value: object, path: str) -> str:
        """Return a text without lone surrogates."""
        if not isinstance(value, str):
            _wrong_type(path, "text", value)
        cleaned = storable_text(value)
        self._count(len(cleaned) if cleaned.isascii() else len(cleaned.encode()), path)
        return cleaned

    def json(self, value: object, path: str, depth: int = 0) -> Any:
        """Return a JSON value with plain dicts and lists."""
        if depth > _MAX_DEPTH:
            _bad(path, f"is nested more than {_MAX_DEPTH} levels deep")
        match value:
            case None | bool():
                self._count(1, path)
                return value
            case str():
                return self.text(value, path)
            case int():
                if value.bit_length() > _MAX_INTEGER_BITS:
                    _bad(path, "is a number too long to read")
                self._count(1 + value.bit_length() // 4, path)
                return int(value)
            case float():
                self._count(1, path)
                return self.finite(value, path)
            case Mapping():
                self._count(1, path)
                return {
                    self.text(key, f"{path}: a key"): self.json(item, _child(path, key), depth + 1)
                    for key, item in value.items()
                }
            case list() | tuple():
                self._count(1, path)
                return [self.json(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
            case _:
                return _wrong_type(path, "a JSON value", value)

    def finite(self, value: object, path: str, least: float = -math.inf) -> float:
        """Return a finite number that is at least `least`."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            _wrong_type(path, "a number", value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            _bad(path, "must be a finite number")
        if number < least:
            _bad(path, f"must be at least {least:g}")
        return number

    def _count(self, size: int, path: str) -> None:
        self._left -= size
        if self._left < 0:
            raise AgentError(
                f"the reply holds more than {self._max_bytes} bytes, which limits.max_response_bytes allows; "
                f"it overflows at {path}",
                "too_large",
                {"field": path, "max_response_bytes": self._max_bytes},
            )


def _response(value: object, reader: _Reader) -> str:
    if isinstance(value, str):
        return reader.text(value, "response")
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(reader.json(value, "response"), ensure_ascii=False)
    return _wrong_type("response", "text, an object or a list", value)


def _invocation(value: object, path: str, reader: _Reader) -> ToolInvocation:
    entries = _object(value, path, INVOCATION_KEYS)
    name = reader.text(entries.get("name"), f"{path}.name")
    if not name:
        _bad(f"{path}.name", "must not be empty")
    args = entries.get("args")
    if not isinstance(args, Mapping | None):
        _wrong_type(f"{path}.args", "an object", args)
    result = reader.json(entries.get("result"), f"{path}.result")
    duration = entries.get("duration_ms")
    error = entries.get("error")
    return ToolInvocation(
        name=name,
        args=reader.json(args or {}, f"{path}.args"),
        result=result,
        bytes=_size(entries.get("bytes"), result, f"{path}.bytes"),
        duration_ms=None if duration is None else reader.finite(duration, f"{path}.duration_ms", least=0.0),
        error=None if error is None else reader.text(error, f"{path}.error"),
    )


def _size(given: object, result: Any, path: str) -> int | None:
    """Size of a result: as given, else counted on its text as the tool returned it (JSON text for other values)."""
    if given is not None:
        if isinstance(given, bool) or not isinstance(given, int):
            _wrong_type(path, "a whole number", given)
        if not 0 <= given <= _MAX_SIZE:
            _bad(path, f"must be from 0 to {_MAX_SIZE}")
        return given
    if result is None:
        return None
    return len((result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)).encode())


def _chunk(value: object, path: str, reader: _Reader) -> RetrievedChunk:
    entries = _object(value, path, CHUNK_KEYS)
    identity = entries.get("id")
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(reader.json(identity, f"{path}.id"))
    name = reader.text(identity, f"{path}.id")
    if not name:
        _bad(f"{path}.id", "must not be empty")
    text = entries.get("text")
    score = entries.get("score")
    return RetrievedChunk(
        id=name,
        text=None if text is None else reader.text(text, f"{path}.text"),
        score=None if score is None else reader.finite(score, f"{path}.score"),
    )


def _context_of(chunks: tuple[RetrievedChunk, ...] | None) -> tuple[str, ...] | None:
    """Texts of the chunks; None when nothing is known about them, empty when nothing was retrieved."""
    if chunks is None:
        return None
    texts = tuple(chunk.text for chunk in chunks if chunk.text is not None)
    return texts if texts or not chunks else None


def _object(value: object, path: str, allowed: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        expected = "text or an object with `response`" if allowed is REPLY_KEYS else "an object"
        _wrong_type(path, expected, value)
    for key in value:
        if key not in allowed:
            where = "" if allowed is REPLY_KEYS else f"{path}: "
            raise AgentError(f"{where}{unknown_key(key, allowed)}", "bad_reply", {"field": path})
    return value


def _list(value: object, path: str) -> list[Any] | tuple[Any, ...] | None:
    if value is None or isinstance(value, list | tuple):
        return value
    return _wrong_type(path, "a list", value)


def _child(path: str, key: object) -> str:
    return f"{path}.{excerpt(str(key), _MAX_KEY_SHOWN)}"


def _wrong_type(path: str, expected: str, value: object) -> NoReturn:
    _bad(path, f"must be {expected}, not {kind_of(value)}")


def _bad(path: str, problem: str) -> NoReturn:
    raise AgentError(f"{path} {problem}", "bad_reply", {"field": path})
