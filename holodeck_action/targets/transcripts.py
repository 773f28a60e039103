"""Transcript files: rows with recorded answers, as JSON lines or as a YAML list."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import yaml
from msgspec import Struct, field

from holodeck_action.record.agent_errors import TargetError
from holodeck_action.suite.checkout import MOST_TRANSCRIPT, MOST_YAML, Checkout
from holodeck_action.text.foreign import Foreign, RefusedFileError
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import excerpt

TURN_KEYS = ("case", "turn", "trial")
"""Keys of the fields of a row that identify the answered turn."""

_HEAD = 65_536
"""Maximum bytes at the start of an invalid line that are searched for `case`, `turn` and `trial`."""

_MAX_DEPTH = 200
"""Maximum nesting of a YAML transcript; the YAML parser itself has no limit."""

_TOKEN = lazy_pattern(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)


class Row(Struct, frozen=True):
    """The index entry of a row in a transcript.

    Attributes:
        line: number of the line on which the row starts, from 1.
        position: position of the row, for `Transcript.read`.
        turn_fields: the row's fields `case`, `turn` and `trial`, unchecked; a missing field is omitted.
        keys: all keys of the row; None if the row could not be parsed.
        problem: a clause with the reason why the row could not be parsed; None if it was parsed.
    """

    line: int
    position: tuple[int, int]
    turn_fields: dict[str, Any] = field(default_factory=dict)
    keys: tuple[object, ...] | None = None
    problem: str | None = None


class Transcript(Protocol):
    """A file with rows of recorded answers."""

    def rows(self) -> Iterator[Row]:
        """Yield all rows in the order of the file; blank lines are skipped."""
        ...

    def read(self, position: tuple[int, int]) -> dict[Any, Any]:
        """Return the row at a position (see `Row.position`).

        Raises:
            ValueError: the file has changed since it was indexed.
        """
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def open_transcript(path: Path, title: str, max_line: int, checkout: Checkout) -> Transcript:
    """Open a transcript. It is read as a YAML list if its extension is `.yaml` or `.yml`, otherwise as JSON lines.

    Args:
        path: path of the file.
        title: the file's name in messages.
        max_line: maximum bytes of one JSON line; a longer line is an invalid row.
        checkout: the files that may be read.

    Raises:
        TargetError: the file is missing, unreadable, not a regular file, or has the wrong format.
    """
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            return YamlTranscript(checkout.read(path, MOST_YAML), title)
        return JsonLinesTranscript(checkout.open(path, MOST_TRANSCRIPT), title, max_line)
    except FileNotFoundError:
        raise TargetError(f"transcript {title} does not exist") from None
    except IsADirectoryError:
        raise TargetError(f"transcript {title} is not a regular file") from None
    except RefusedFileError as error:
        raise TargetError(f"transcript {title} {error.clause}") from None
    except OSError as error:
        raise TargetError(f"transcript {title} cannot be read: {error.strerror or type(error).__name__}") from None
    except TargetError:
        raise
    except ValueError as error:  # an invalid path
        raise TargetError(f"transcript {excerpt(title)} cannot be read: {error}") from None


class JsonLinesTranscript:
    """A transcript with one JSON object per line. The file stays open, and rows are read when needed."""

    def __init__(self, file: BinaryIO, title: str, max_line: int) -> None:
        self._max_line = max_line
        self._file = file
        if self._file.read(_HEAD).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            self._file.close()
            raise TargetError(
                f"transcript {title} holds a JSON list; write one JSON object per line, or name the file .yaml"
            )

    def rows(self) -> Iterator[Row]:
        """Yield the rows. At most one line is in memory, and only the start of a line that is too long."""
        self._file.seek(0)
        offset = 0
        number = 0
        while data := self._file.readline(self._max_line + 1):
            number += 1
            length = len(data)
            overlong = length > self._max_line and not data.endswith(b"\n")
            while overlong and (rest := self._file.readline(_HEAD)):
                length += len(rest)
                if rest.endswith(b"\n"):
                    break
            if overlong:
                problem = f"the line is longer than {self._max_line} bytes (see limits.max_response_bytes)"
                yield Row(number, (offset, 0), _find_turn_fields(data), problem=problem)
            elif data.strip(b"\xef\xbb\xbf \t\r\n"):
                yield self._index_row(number, offset, data)
            offset += length

    def read(self, position: tuple[int, int]) -> dict[Any, Any]:
        """Read and parse one line."""
        value = _parse_line(os.pread(self._file.fileno(), position[1], position[0]))
        if not isinstance(value, dict):
            raise ValueError("the line is not a JSON object")
        return value

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @staticmethod
    def _index_row(number: int, offset: int, data: bytes) -> Row:
        position = (offset, len(data))
        try:
            value = _parse_line(data)
        except ValueError as error:
            return Row(number, position, _find_turn_fields(data), problem=f"the line is not JSON ({error})")
        return _make_row(number, position, value)


class YamlTranscript:
    """A transcript that is a YAML list of mappings, kept in memory.

    Timestamps are read as strings, and `<<` is an ordinary key.
    """

    def __init__(self, content: Foreign, title: str) -> None:
        content.parse(partial(self._load_rows, title=title), TargetError)

    def _load_rows(self, data: bytes, title: str) -> None:
        loader = _make_loader(data, title)
        try:
            _check_depth(data, title)
            root = loader.get_single_node()
            items = _row_nodes(root, title)
            # Each row is constructed separately, so that an invalid value affects only its own row.
            self._rows = [self._build_row(loader, index, node) for index, node in enumerate(items)]
        except yaml.YAMLError as error:
            raise _yaml_error(error, title) from None
        finally:
            loader.dispose()

    def rows(self) -> Iterator[Row]:
        """Yield the rows."""
        for row, _ in self._rows:
            yield row

    def read(self, position: tuple[int, int]) -> dict[Any, Any]:
        """Return one row."""
        value = self._rows[position[0]][1]
        assert isinstance(value, dict)
        return value

    def close(self) -> None:
        """Do nothing: no file is open."""

    @staticmethod
    def _build_row(loader: _Loader, index: int, node: yaml.Node) -> tuple[Row, object]:
        line = node.start_mark.line + 1
        try:
            value = loader.construct_document(node)
        except (yaml.YAMLError, ValueError) as error:
            reason = error.problem if isinstance(error, yaml.MarkedYAMLError) else "a value is out of range"
            named: dict[str, Any] = {}
            if isinstance(node, yaml.MappingNode):
                for key, item in node.value:
                    if isinstance(item, yaml.ScalarNode) and key.value in TURN_KEYS:
                        number = key.value != "case" and item.value.isdecimal()
                        named[key.value] = int(item.value) if number else item.value
            return Row(line, (index, 0), named, problem=f"a value cannot be read ({reason})"), None
        return _make_row(line, (index, 0), value), value


class _Loader(yaml.CSafeLoader):
    """PyYAML's safe loader, without timestamps (which JSON does not have) and without merge keys."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("timestamp", "merge")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _make_loader(data: bytes, title: str) -> _Loader:
    try:
        return _Loader(data)
    except yaml.YAMLError as error:
        raise _yaml_error(error, title) from None


def _yaml_error(error: yaml.YAMLError, title: str) -> TargetError:
    where, reason = "", str(error).splitlines()[0]
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        reason = error.problem or error.context or "syntax error"
    return TargetError(f"transcript {title}{where} is not YAML: {reason}")


def _check_depth(data: bytes, title: str) -> None:
    depth = 0
    for event in yaml.parse(data, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise TargetError(f"transcript {title} is nested more than {_MAX_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _row_nodes(root: yaml.Node | None, title: str) -> list[yaml.Node]:
    if root is None:
        return []
    if not isinstance(root, yaml.SequenceNode):
        raise TargetError(f"transcript {title} must be a YAML list of rows")
    return list(root.value)


def _parse_line(data: bytes) -> Any:
    return parse_json(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8").strip())


def _make_row(line: int, position: tuple[int, int], value: object) -> Row:
    if not isinstance(value, dict):
        return Row(line, position, problem="the row is not an object")
    return Row(line, position, {key: value[key] for key in TURN_KEYS if key in value}, tuple(value))


def _find_turn_fields(data: bytes) -> dict[str, Any]:
    """Return the fields `case`, `turn` and `trial` of an invalid line, as far as they can be found."""
    found: dict[str, Any] = {}
    depth = 0
    key: str | None = None
    for match in _TOKEN.finditer(data[:_HEAD].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")):
        lexeme = match.group()
        if lexeme == '"':  # a string without an end: the rest cannot be parsed
            break
        if lexeme in "{[":
            depth += 1
        elif lexeme in "}]":
            depth -= 1
        elif lexeme == ",":
            key = None if depth == 1 else key
        elif depth == 1 and lexeme != ":":
            if key is None:
                key = lexeme.strip('"')
            elif key in TURN_KEYS and key not in found:
                try:
                    found[key] = parse_json(lexeme)
                except ValueError:
                    continue
    return found
