"""Parsing of YAML files to plain data with the positions of all values.

The C parser's events are converted to dicts and lists directly, with packed positions for each container, so that a
file of 10,000 cases needs little more memory than its data. PyYAML's nodes would take four times as long, and its C
composer crashes on 100,000 open brackets. Anchors, aliases, merge keys and implicit types work as in PyYAML's safe
loader, except that dates stay text and some scalars are kept as written (`_MODES`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct
from yaml import CSafeLoader
from yaml.error import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)
from yaml.reader import ReaderError

from holodeck_action.suite.errors import Problem, SourceMark, field_path
from holodeck_action.suite.yaml.document import SUBSTITUTED, UNSET, Document, MarkedList, MarkedMap
from holodeck_action.suite.yaml.scalars import (
    MERGE,
    NULLS,
    SPECIAL_KEYS,
    JoinedSurrogates,
    construct,
    join_surrogates,
    lone_surrogate,
    resolve,
    resolve_core,
)
from holodeck_action.suite.yaml.variables import substitute
from holodeck_action.suite.yaml.yaml_errors import defect_of
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.lazy_patterns import lazy_pattern

MAX_DEPTH = 100
MAX_ALIASED = 1_000_000

_BREAK = lazy_pattern(r"\r\n|[\n\r\x85\u2028\u2029]")
_UNPRINTABLE = lazy_pattern("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SCALAR_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null"))
_UNTAGGED = (None, "!")
_COLLECTION_TAGS = frozenset((*_UNTAGGED, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"))
_NO_KEY = "a mapping or list cannot be a key (allowed: text): put a value that begins with { or [ in quotes"
_NO_CHARACTER = "found invalid Unicode character escape code"

SECRET_KEY = lazy_pattern(
    r"(?:^|[_-])(?:key|token|secret|password|passwd|credentials?|authorization|cookie|connection_string)$", re.I
)

LISTED_SECRETS = "secrets"
"""The key of the policy file that lists literal secrets."""

_MODEL_FIELDS = (["model"], ["embedding_provider"], ["context_model"], ["reranker_model"])

_PLACES_OF_CHECKS = frozenset(("expect", "stop"))
"""Keys below which each check is `{TYPE: VALUE}`; the class of the check says how VALUE is read."""
Written = Literal["text", "texts"] | None
"""How the value of a check is read: as text or a list of texts, as it is written; None for a value as usual in YAML."""
Checks = Callable[[str], Written]
"""Returns how the value of a check is read, by the type of the check."""

# How the scalars below a key are read. Below `_FREE_FORM`, no key has a meaning of ours.
_NORMAL, _FREE_FORM, _WRITTEN, _WRITTEN_ITEMS, _ARGS, _IDS = range(6)
_MODES = {
    "ground_truth": _WRITTEN,
    "ground_truths": _WRITTEN_ITEMS,
    "api_key": _WRITTEN,
    "password": _WRITTEN,
    "username": _WRITTEN,
    "connection_string": _WRITTEN,
    "env": _WRITTEN_ITEMS,
    "headers": _WRITTEN_ITEMS,
    "resource_attributes": _WRITTEN_ITEMS,
    LISTED_SECRETS: _WRITTEN_ITEMS,
    "args": _ARGS,
    "ground_truth_chunk_ids": _IDS,
    **dict.fromkeys(("turn_config", "parameters", "response_format", "deployment", "config", "options"), _FREE_FORM),
    **dict.fromkeys(("request", "prometheus", "azure_monitor", "json", "json_schema", "paths"), _FREE_FORM),
}
_MODES_OF_CHECKS: Mapping[Written, int] = {"text": _WRITTEN, "texts": _WRITTEN_ITEMS, None: _NORMAL}


def read_yaml(
    content: Foreign, *, file: str, environ: Mapping[str, str], checks: Checks = lambda kind: None
) -> Document:
    """Read one YAML document and substitute variables in its values.

    Args:
        content: content of the file, in UTF-8.
        file: the file's name in positions.
        environ: values of variables.
        checks: returns how the value of a check is read, by its type (`MetricTypes.written`); needed for cases.
    """
    return content.parse(lambda data: _read(data, file, environ, checks))


def read_foreign_yaml(content: Foreign, *, file: str) -> Document:
    """Read one YAML document of another program by the rules of YAML 1.2, without substituting variables.

    Args:
        content: content of the file, in UTF-8.
        file: the file's name in positions.
    """
    return content.parse(lambda data: _read(data, file, None, lambda kind: None))


def _read(data: bytes, file: str, environ: Mapping[str, str] | None, checks: Callable[[str], Written]) -> Document:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _position(data[: error.start].decode("utf-8"))
        problem = Problem(SourceMark(file, line, column), "", "is not UTF-8 text: save the file as UTF-8")
        return Document(file, None, False, (problem,), frozenset())
    reader = _Reader(data, file, environ, checks)
    try:
        try:
            root = reader.document()
        except _SurrogateError:
            # Python's json.dumps writes surrogate pairs for characters above U+FFFF.
            joined = join_surrogates(data.decode("utf-8"))
            if joined is None:
                raise
            reader = _Reader(joined.text.encode(), file, environ, checks, joined)
            root = reader.document()
    except _NotReadableError as error:
        return Document(file, None, False, (*reader.problems, error.problem), frozenset(reader.secrets))
    return Document(file, root, True, tuple(reader.problems), frozenset(reader.secrets))


class _NotReadableError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class _SurrogateError(_NotReadableError):
    """The file contains an escaped surrogate, which JSON allows and YAML does not."""


class _Anchored(Struct, frozen=True):
    value: Any
    flags: int
    size: int


class _Reader:
    """Builds the data of one document; `_flags` are the flags of the node that was just read."""

    def __init__(
        self,
        data: bytes,
        file: str,
        environ: Mapping[str, str] | None,
        checks: Checks,
        surrogates: JoinedSurrogates | None = None,
    ) -> None:
        # `environ` is None for a file of another program.
        self._joined = surrogates
        self.problems: list[Problem] = []
        self.secrets: set[str] = set()
        self._data = data
        self._file = file
        self._environ = environ
        self._checks = checks
        self._next: Callable[[], Any] = CSafeLoader(data).get_event
        self._anchors: dict[str, _Anchored | None] = {}
        self._path: list[str | int] = []
        self._flags = 0
        self._size = 0
        self._aliased = 0

    def document(self) -> Any:
        """Return the data of the only document.

        Raises:
            _NotReadableError: the text is not one YAML document.
        """
        try:
            self._next()
            if type(self._next()) is StreamEndEvent:
                return None
            root = self._node(self._next(), _NORMAL if self._environ is not None else _FREE_FORM, 0)
            self._next()
            event = self._next()
        except MarkedYAMLError as error:
            raise self._syntax_error(error) from None
        except ReaderError:
            text = self._data.decode("utf-8-sig")
            found = _UNPRINTABLE.search(text)
            place = _position(text[: found.start()] if found else text)
            raise _NotReadableError(
                Problem(self._mark(place), "", "is not valid YAML: it holds a control character: delete it")
            ) from None
        if type(event) is not StreamEndEvent:
            message = "starts a second document (allowed: one, without a second ---)"
            raise _NotReadableError(self._problem(_start(event), message))
        return root

    def _node(self, event: Any, mode: int, depth: int) -> Any:
        kind = type(event)
        if kind is AliasEvent:
            return self._alias(event)
        anchor = event.anchor
        before = self._size
        if anchor is not None:
            self._anchors[anchor] = None
        self._size += 1
        if kind is ScalarEvent:
            value = self._scalar(event, mode)
        else:
            if depth == MAX_DEPTH:
                raise _NotReadableError(self._problem(_start(event), f"is nested more than {MAX_DEPTH} levels deep"))
            if event.tag not in _COLLECTION_TAGS:
                self._refuse_tag(event)
            value = (self._mapping if kind is MappingStartEvent else self._sequence)(event, mode, depth + 1)
            self._flags = 0
        if anchor is not None:
            self._anchors[anchor] = _Anchored(value, self._flags, self._size - before)
        return value

    def _alias(self, event: Any) -> Any:
        name = event.anchor
        anchored = self._anchors.get(name)
        if anchored is None:
            reason = "refers to a value that contains it" if name in self._anchors else "is not defined above"
            raise _NotReadableError(self._problem(_start(event), f"the alias *{name} {reason}"))
        self._size += anchored.size
        self._aliased += anchored.size
        if self._aliased > MAX_ALIASED:
            message = f"aliases expand to more than {MAX_ALIASED:,} values"
            raise _NotReadableError(self._problem(_start(event), message))
        self._flags = anchored.flags
        return anchored.value

    def _scalar(self, event: Any, mode: int) -> Any:
        text = self._text(event)
        self._flags = 0
        if "${" in text and self._environ is not None:
            found = substitute(text, self._environ)
            text = found.text
            for name in found.unset if not self._is_model_key() else ():
                message = f"the variable {name} is not set: set it, or write ${{{name}:-default}}"
                self.problems.append(self._problem(_start(event), message))
            if found.unset:
                self._flags = UNSET
                return text
            if found.values:
                self._flags = SUBSTITUTED
                self.secrets.update(found.values)
        if mode == _WRITTEN and event.implicit[0]:
            return None if text in NULLS else text
        if text in SPECIAL_KEYS and self._environ is not None and event.implicit[0] and event.tag in _UNTAGGED:
            self.problems.append(self._problem(_start(event), f"{text} can only be a key: put it in quotes"))
        return self._resolve(event, text)

    def _text(self, event: Any) -> str:
        text: str = event.value
        return text if self._joined is None else self._joined.scalar(text, escapes=event.style == '"')

    def _is_model_key(self) -> bool:
        """Return whether the value is the `api_key` of a model; replay of recorded calls does not need the key."""
        path = self._path
        return path[-1:] == ["api_key"] and (
            path[-2:-1] in _MODEL_FIELDS or path[-3:-2] == ["judges"] or path[-3:-2] == ["providers"]
        )

    def _resolve(self, event: Any, text: str) -> Any:
        tag = event.tag
        try:
            if tag in _UNTAGGED:
                if not event.implicit[0]:
                    return text
                return resolve(text) if self._environ is not None else resolve_core(text)
            if tag in _SCALAR_TAGS:
                return construct(tag, text)
        except ValueError:
            kind = "a number" if tag is None else f"of type {tag.rpartition(':')[2]}"
            message = f"looks like {kind} but cannot be read as one: put it in quotes"
            self.problems.append(self._problem(_start(event), message))
            return text
        self._refuse_tag(event)
        return text

    def _mapping(self, start: Any, mode: int, depth: int) -> MarkedMap:
        result = MarkedMap.at(*_start(start))
        marks = result.marks
        merged: list[MarkedMap] | None = None
        fixed = _FREE_FORM if mode in (_FREE_FORM, _ARGS) else _WRITTEN if mode == _WRITTEN_ITEMS else None
        step, path = self._next, self._path
        while type(event := step()) is not MappingEndEvent:
            mark = event.start_mark
            line, column = mark.line + 1, mark.column + 1
            key = self._key(event, mode, depth)
            child = step()
            path.append(key if type(key) is str else MERGE if key is _MERGE_KEY else str(key))
            below = _MODES.get(key) if fixed is None else fixed
            value = self._node(child, self._mode_of_check(key, not result) if below is None else below, depth)
            if key is _MERGE_KEY:
                if merged is not None:
                    self.problems.append(self._problem((line, column), "occurs twice in one mapping"))
                merged = self._merge_sources(child, value)
            elif key in result:
                first = marks[key][0]
                message = f"occurs twice in one mapping (first on line {first})"
                self.problems.append(self._problem((line, column), message))
            else:
                if type(value) is str and type(key) is str and SECRET_KEY.search(key) and self._flags != UNSET:
                    self.secrets.add(value)
                elif path == [LISTED_SECRETS] and isinstance(value, list):
                    # Also if the file has problems: their messages may quote such a literal.
                    self.secrets.update(item for item in value if type(item) is str)
                result[key] = value
                mark = child.start_mark
                marks[key] = line, column, mark.line + 1, (mark.column + 1) | self._flags
            path.pop()
        return result if merged is None else _merge(result, merged)

    def _mode_of_check(self, key: Any, is_first: bool) -> int:
        """Return the mode of a key that is not in `_MODES`."""
        *_, outer, inner, _ = ("", "", *self._path)
        is_check = inner in _PLACES_OF_CHECKS or (is_first and type(inner) is int and outer in _PLACES_OF_CHECKS)
        return _MODES_OF_CHECKS[self._checks(key)] if is_check and type(key) is str else _NORMAL

    def _key(self, event: Any, mode: int, depth: int) -> Any:
        if type(event) is ScalarEvent:
            text = self._text(event)
            self._size += 1
            if text == MERGE and event.implicit[0] and event.tag in _UNTAGGED:
                return _MERGE_KEY
            # Keys are never substituted.
            key = text if mode == _IDS else self._resolve(event, text)
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchored(key, 0, 1)
        else:
            key = self._node(event, _NORMAL, depth)
        if isinstance(key, dict | list):
            raise _NotReadableError(self._problem(_start(event), _NO_KEY))
        return sys.intern(key) if type(key) is str else key

    def _merge_sources(self, event: Any, value: Any) -> list[MarkedMap]:
        sources = value if isinstance(value, MarkedList) else [value]
        if not all(isinstance(source, MarkedMap) for source in sources):
            message = "must be a mapping or a list of mappings, usually an alias"
            self.problems.append(self._problem(_start(event), message))
            return []
        return list(sources)

    def _sequence(self, start: Any, mode: int, depth: int) -> MarkedList:
        result = MarkedList.at(*_start(start))
        item_mode = _FREE_FORM if mode == _FREE_FORM else _WRITTEN if mode in (_ARGS, _WRITTEN_ITEMS, _IDS) else _NORMAL
        step, path = self._next, self._path
        while type(event := step()) is not SequenceEndEvent:
            mark = event.start_mark
            path.append(len(result))
            result.append(self._node(event, item_mode, depth))
            path.pop()
            result.marks.append((mark.line + 1, (mark.column + 1) | self._flags))
        return result

    def _refuse_tag(self, event: Any) -> None:
        message = f"the tag {event.tag} is not supported (allowed: values without a tag)"
        self.problems.append(self._problem(_start(event), message))

    def _syntax_error(self, error: MarkedYAMLError) -> _NotReadableError:
        lines = _BREAK.split(self._data.decode("utf-8-sig"))
        mark = error.problem_mark
        if error.problem == _NO_CHARACTER and mark is not None:
            lone = lone_surrogate(lines[mark.line][mark.column :])
            if lone is not None:
                place = self._mark((mark.line + 1, mark.column - 1))
                return _SurrogateError(Problem(place, field_path(self._path), lone))
        defect = defect_of(error, lines)
        return _NotReadableError(Problem(self._mark((defect.line, defect.column)), "", defect.message))

    def _problem(self, place: tuple[int, int], message: str) -> Problem:
        return Problem(self._mark(place), field_path(self._path), message)

    def _mark(self, place: tuple[int, int]) -> SourceMark:
        return SourceMark(self._file, *place)


_MERGE_KEY = object()


def _start(event: Any) -> tuple[int, int]:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


def _position(text: str) -> tuple[int, int]:
    lines = _BREAK.split(text)
    return len(lines), len(lines[-1]) + 1


def _merge(entries: MarkedMap, sources: list[MarkedMap]) -> MarkedMap:
    """Return the entries of `entries` and of the sources; `entries` takes precedence, then earlier sources over later
    ones."""
    result = MarkedMap.at(entries.line, entries.column)
    for source in (*reversed(sources), entries):
        result.update(source)
        result.marks.update(source.marks)
    return result
