"""Extraction of a reply from a service's JSON with JSONPath (RFC 9535, implemented by python-jsonpath)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.targets.reply import ReplyEntries, is_cut_off
from holodeck_action.targets.shapes import listed_fields
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.plain import excerpt
from holodeck_action.workers.code_errors import MAX_SENT_CHARS
from holodeck_action.workers.limited_workers import OutOfTimeError

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath, JSONPathEnvironment

_LISTS = frozenset({"tool_invocations", "retrieval_context", "retrieved_chunks", "messages"})
_MAX_MATCHES = 100_000
_MAX_LEVELS = 8
"""Levels of objects, and of lists, that the outline of an answer shows."""
_PATTERN_S = 0.5
"""Maximum seconds to match one pattern of a JSONPath filter against one string."""


class ReplyPaths:
    """The compiled `response` mapping of an HTTP target."""

    def __init__(self, mapping: Mapping[str, str | Mapping[str, str]]) -> None:
        """Compile the paths; an entry of the mapping is a path, or a mapping with paths of its keys (`ObjectPaths`)."""
        compile_path = _environment().compile
        self._objects = {name: ObjectPaths(name, keys) for name, keys in mapping.items() if not isinstance(keys, str)}
        paths = {
            name: compile_path(path if isinstance(path, str) else path.get("each", "$"))
            for name, path in mapping.items()
        }
        self._text = paths.pop("text")
        self._delta = paths.pop("delta", None)
        self._lists = {name: path for name, path in paths.items() if name in _LISTS}
        self._values = {name: path for name, path in paths.items() if name not in _LISTS}

    def extract(self, body: object) -> dict[str, object]:
        """Return the reply object that the paths extract from a body.

        `text` must match exactly once, unless `error` matches or the answer is cut off. Other single values may match
        at most once, except `usage`, whose matches become a list. A list entry contains all matches of its path, or is
        the only match if that is a list. An entry without a match is omitted, but a list entry is empty if a wildcard,
        slice or filter selects nothing from an existing list, such as `$.calls[*]` from empty `calls`.

        Raises:
            AgentError: `bad_reply`.
        """
        if not isinstance(body, dict | list):
            raise AgentError("the answer must be a JSON object or list for the target's response mapping", "bad_reply")
        reply = self._extract_values(body)
        if "error" not in reply:
            texts = _find_matches("text", self._text, body)
            if len(texts) > 1 or not (texts or is_cut_off(reply.get("finish_reason"))):
                _refuse("text", self._text, texts)
            reply["response"] = texts[0] if texts else None
        return {**reply, **self._extract_lists(body)}

    def extract_stream(self, events: Sequence[Any]) -> dict[str, object]:
        """Return `{reply, first}`: the reply object that the paths extract from the events of a stream, and the index
        of the first event in which `delta` matches a non-empty string, None if there is no such event.

        The answer is the last match of `text`, or else the concatenated matches of `delta`. Every other entry comes
        from the last event with a match.

        Raises:
            AgentError: `bad_reply`.
        """
        parts: list[str] = []
        first: int | None = None
        reply: dict[str, object] = {}
        for at, event in enumerate(events):
            body = event if isinstance(event, dict | list) else [event]
            found = () if self._delta is None else _find_matches("delta", self._delta, body)
            parts += (part for part in found if isinstance(part, str))
            if first is None and any(parts):
                first = at
            texts = _find_matches("text", self._text, body)
            reply |= self._extract_values(body)
            # An event with an empty list does not replace earlier items.
            reply |= {name: items for name, items in self._extract_lists(body).items() if items or name not in reply}
            if len(texts) == 1 and texts[0] is not None:
                reply["response"] = texts[0]
        if "error" in reply:
            reply.pop("response", None)
        elif "response" not in reply:
            if not (parts or is_cut_off(reply.get("finish_reason"))):
                _refuse("delta" if self._delta is not None else "text", self._delta or self._text, ())
            reply["response"] = "".join(parts) if parts else None
        return {"reply": reply, "first": first}

    def _extract_values(self, body: Any) -> dict[str, object]:
        reply: dict[str, object] = {}
        for name, path in self._values.items():
            matches = [match for match in _find_matches(name, path, body) if match is not None]
            if name in self._objects:
                matches = self._objects[name].read_all(_as_items(matches) or ())
            if len(matches) > 1 and name != "usage":
                _refuse(name, path, matches)
            if matches:
                reply[name] = matches if len(matches) > 1 else matches[0]
        return reply

    def _extract_lists(self, body: Any) -> dict[str, list[Any]]:
        reply: dict[str, list[Any]] = {}
        for name, path in self._lists.items():
            items = _as_items(_find_matches(name, path, body))
            if items is None and _selects_from_list(name, path, body):
                items = []
            if items is not None:
                reply[name] = self._objects[name].read_all(items) if name in self._objects else items
        return reply


class ObjectPaths:
    """The compiled mapping of one entry of a reply whose values are objects: a path for each key, within an object of
    the service."""

    def __init__(self, name: str, paths: Mapping[str, str]) -> None:
        """Compile the paths; the path `each`, which finds the objects, is not applied here."""
        self._name = name
        self._paths = {key: _environment().compile(path) for key, path in paths.items() if key != "each"}
        self._are_listed = "each" in paths
        self._required = {key for key, required in listed_fields(ReplyEntries, name).items() if required}

    def read_all(self, found: Iterable[Any]) -> list[Any]:
        """Return the entry's object for each object of the service. The body itself, where no path matches, gives none.

        Raises:
            AgentError: `bad_reply`: a path matches several values, or that of a required key matches nothing.
        """
        read = [self._read(item) for item in found]
        return [item for item in read if item or self._are_listed]

    def _read(self, item: Any) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for key, path in self._paths.items():
            name = f"{self._name}.{key}"
            # The library would parse text as JSON.
            matches = _find_matches(name, path, item) if isinstance(item, dict | list) else [item] * (str(path) == "$")
            if len(matches) > 1 or (not matches and key in self._required):
                _refuse(name, path, matches)
            if matches:
                read[key] = _parse_object(matches[0]) if key == "args" else matches[0]
        return read


def _parse_object(value: Any) -> Any:
    """Return the object that a text is as JSON, as interfaces of models give arguments; any other value as it is."""
    try:
        return parse_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def outline(bodies: Iterable[object]) -> str:
    """Return the JSONPaths of the values in bodies, as a list for a message; of a list in them, those of its first
    item."""
    return ", ".join(dict.fromkeys(itertools.islice((path for body in bodies for path in _paths_in(body, "$")), 100)))


def _paths_in(value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict) and value and path.count(".") < _MAX_LEVELS:
        for key, item in value.items():
            yield from _paths_in(item, f"{path}.{key}")
    elif isinstance(value, list) and value and path.count("[*]") < _MAX_LEVELS:
        yield from _paths_in(value[0], f"{path}[*]")
    else:
        yield path


def _refuse(name: str, path: JSONPath | CompoundJSONPath, matches: Sequence[Any]) -> NoReturn:
    found = f"{len(matches)} values" if matches else "nothing"
    raise AgentError(f"response.{name}, {_format_path(path)}, matches {found} in the answer", "bad_reply")


def _as_items(matches: list[Any]) -> list[Any] | None:
    if len(matches) == 1 and (matches[0] is None or isinstance(matches[0], list)):
        return matches[0]
    return matches or None


def _selects_from_list(name: str, path: JSONPath | CompoundJSONPath, body: Any) -> bool:
    """Return whether a path has no match only because it selects nothing from existing lists, not because a key is
    missing."""
    from jsonpath import JSONPath
    from jsonpath.segments import JSONPathChildSegment
    from jsonpath.selectors import IndexSelector, NameSelector

    segments = tuple(path.segments) if isinstance(path, JSONPath) else ()
    for position in reversed(range(len(segments))):
        before = _find_matches(name, JSONPath(env=_environment(), segments=segments[:position]), body)
        if before:
            segment = segments[position]
            named = not isinstance(segment, JSONPathChildSegment) or any(
                isinstance(selector, NameSelector | IndexSelector) for selector in segment.selectors
            )
            return not named and all(isinstance(found, list) for found in before)
    return False


def _find_matches(name: str, path: JSONPath | CompoundJSONPath, body: Any) -> list[Any]:
    from jsonpath import JSONPathError

    try:
        found = [match.obj for match in itertools.islice(path.finditer(body), _MAX_MATCHES + 1)]
    except (JSONPathError, RecursionError, OutOfTimeError) as error:
        reason = str(error).partition("\n")[0][:MAX_SENT_CHARS]
        raise AgentError(
            f"response.{name}, {_format_path(path)}, cannot be applied to the answer: {reason}", "bad_reply"
        ) from None
    except TimeoutError:
        raise AgentError(
            f"response.{name}, {_format_path(path)}: a pattern took longer than {_PATTERN_S:g} s on the answer",
            "bad_reply",
        ) from None
    if len(found) > _MAX_MATCHES:
        raise AgentError(f"response.{name}, {_format_path(path)}, matches more than {_MAX_MATCHES} values", "too_large")
    return found


def _format_path(path: JSONPath | CompoundJSONPath) -> str:
    return excerpt(str(path), 80)


@cache
def _environment() -> JSONPathEnvironment:
    """Return a JSONPath environment in which patterns have a time limit, because they search untrusted text."""
    import regex
    from jsonpath import JSONPathEnvironment
    from jsonpath.function_extensions import Match, Search

    class TimedMatch(Match):
        def __call__(self, value: object, pattern: object) -> bool:
            compiled = self.check_cache(pattern) if isinstance(pattern, str) else None
            return compiled is not None and isinstance(value, str) and _is_match(compiled.fullmatch, value)

    class TimedSearch(Search):
        def __call__(self, value: object, pattern: object) -> bool:
            compiled = self.check_cache(pattern) if isinstance(pattern, str) else None
            return compiled is not None and isinstance(value, str) and _is_match(compiled.search, value)

    class TimedEnvironment(JSONPathEnvironment):
        def setup_function_extensions(self) -> None:
            super().setup_function_extensions()
            self.function_extensions["match"] = TimedMatch()
            self.function_extensions["search"] = TimedSearch()

        def compare(self, left: object, operator: str, right: object) -> bool:
            if operator == "=~" and isinstance(left, str) and isinstance(right, re.Pattern):
                return _is_match(regex.compile(right.pattern, right.flags & _SHARED_FLAGS).fullmatch, left)
            return super().compare(left, operator, right)

    return TimedEnvironment()


def _is_match(method: Any, text: str) -> bool:
    return method(text, timeout=_PATTERN_S) is not None


_SHARED_FLAGS = 0b11010
"""The flags IGNORECASE, MULTILINE and DOTALL, which have the same values in `re` and `regex`."""
