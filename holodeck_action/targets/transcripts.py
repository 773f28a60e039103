"""Transcript files: recorded answers as rows of JSON lines or of a YAML list, found by position and read on demand."""

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
from holodeck_action.text.plain import excerpt

ADDRESS_KEYS = ("case", "turn", "trial")
"""The entries of a row that say what it answers."""

_HEAD = 65_536
"""Bytes of a broken line that are searched for the case it names."""

_MAX_DEPTH = 200
"""Deepest nesting of a YAML transcript; the C parser itself has no limit."""

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)


class Row(Struct, frozen=True):
    """One row as the first pass over the file sees it.

    Attributes:
        line: 1-based line on which the row starts.
        place: where the row is found again, for `Transcript.read`.
        address: its `case`, `turn` and `trial` as written, as far as the row gives them.
        keys: its keys; None when it could not be read.
        problem: why it could not be read, a clause; None when it could.
    """

    line: int
    place: tuple[int, int]
    address: dict[str, Any] = field(default_factory=dict)
    keys: tuple[object, ...] | None = None
    problem: str | None = None


class Transcript(Protocol):
    """A file of rows."""

    def rows(self) -> Iterator[Row]:
        """Go through the file once, in its order; blank lines are no rows."""
        ...

    def read(self, place: tuple[int, int]) -> dict[Any, Any]:
        """Read one row, which `rows` found to be readable, again.

        Raises:
            ValueError: the file has changed since.
        """
        ...

    def close(self) -> None:
        """Release the file."""
        ...


def open_transcript(path: Path, title: str, max_line: int, checkout: Checkout) -> Transcript:
    """Open a transcript: a YAML list by the endings `.yaml` and `.yml`, JSON lines by any other.

    Args:
        max_line: most bytes of one JSON line; a longer one is a broken row.

    Raises:
        TargetError: the file is missing, unreadable, no regular file, or not of its format as a whole.
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
    except ValueError as error:  # a path that no file can have
        raise TargetError(f"transcript {excerpt(title)} cannot be read: {error}") from None


class JsonLinesTranscript:
    """One JSON object per line; the file stays open and rows are read from it when they are needed."""

    def __init__(self, file: BinaryIO, title: str, max_line: int) -> None:
        self._max_line = max_line
        self._file = file
        if self._file.read(_HEAD).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            self._file.close()
            raise TargetError(
                f"transcript {title} holds a JSON list; write one JSON object per line, or name the file .yaml"
            )

    def rows(self) -> Iterator[Row]:
        """Go through the lines; only the one at hand is in memory, and of an overlong one only its beginning."""
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
                yield Row(number, (offset, 0), _named_in(data), problem=problem)
            elif data.strip(b"\xef\xbb\xbf \t\r\n"):
                yield self._row(number, offset, data)
            offset += length

    def read(self, place: tuple[int, int]) -> dict[Any, Any]:
        """Read and parse one line."""
        value = _parse_line(os.pread(self._file.fileno(), place[1], place[0]))
        if not isinstance(value, dict):
            raise ValueError("it is no longer an object")
        return value

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @staticmethod
    def _row(number: int, offset: int, data: bytes) -> Row:
        place = (offset, len(data))
        try:
            value = _parse_line(data)
        except ValueError as error:
            return Row(number, place, _named_in(data), problem=f"it is not JSON ({error})")
        return _readable(number, place, value)


class YamlTranscript:
    """A YAML list of mappings, held as a whole; timestamps stay text and `<<` is a key like any other."""

    def __init__(self, content: Foreign, title: str) -> None:
        content.parse(partial(self._load, title=title), TargetError)

    def _load(self, data: bytes, title: str) -> None:
        loader = _loader(data, title)
        try:
            _check_depth(data, title)
            root = loader.get_single_node()
            items = _items(root, title)
            # Row by row, so that a value that cannot be built breaks its own row only.
            self._rows = [self._build(loader, index, node) for index, node in enumerate(items)]
        except yaml.YAMLError as error:
            raise _not_yaml(error, title) from None
        finally:
            loader.dispose()

    def rows(self) -> Iterator[Row]:
        """Go through the list."""
        for row, _ in self._rows:
            yield row

    def read(self, place: tuple[int, int]) -> dict[Any, Any]:
        """Return one mapping."""
        value = self._rows[place[0]][1]
        assert isinstance(value, dict)
        return value

    def close(self) -> None:
        """Nothing is open."""

    @staticmethod
    def _build(loader: _Loader, index: int, node: yaml.Node) -> tuple[Row, object]:
        line = node.start_mark.line + 1
        try:
            value = loader.construct_document(node)
        except (yaml.YAMLError, ValueError) as error:
            reason = error.problem if isinstance(error, yaml.MarkedYAMLError) else "a value is out of range"
            named: dict[str, Any] = {}
            if isinstance(node, yaml.MappingNode):
                for key, item in node.value:
                    if isinstance(item, yaml.ScalarNode) and key.value in ADDRESS_KEYS:
                        number = key.value != "case" and item.value.isdecimal()
                        named[key.value] = int(item.value) if number else item.value
            return Row(line, (index, 0), named, problem=f"it cannot be read ({reason})"), None
        return _readable(line, (index, 0), value), value


class _Loader(yaml.CSafeLoader):
    """The safe loader without dates, which JSON does not have, and without merge keys."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("timestamp", "merge")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _loader(data: bytes, title: str) -> _Loader:
    try:
        return _Loader(data)
    except yaml.YAMLError as error:
        raise _not_yaml(error, title) from None


def _not_yaml(error: yaml.YAMLError, title: str) -> TargetError:
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


def _items(root: yaml.Node | None, title: str) -> list[yaml.Node]:
    if root is None:
        return []
    if not isinstance(root, yaml.SequenceNode):
        raise TargetError(f"transcript {title} must be a YAML list of rows")
    return list(root.value)


def _parse_line(data: bytes) -> Any:
    return parse_json(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8").strip())


def _readable(line: int, place: tuple[int, int], value: object) -> Row:
    if not isinstance(value, dict):
        return Row(line, place, problem="it is not an object")
    return Row(line, place, {key: value[key] for key in ADDRESS_KEYS if key in value}, tuple(value))


def _named_in(data: bytes) -> dict[str, Any]:
    """Find case, turn and trial of a broken line: the entries of its outermost object, as far as it can be followed."""
    found: dict[str, Any] = {}
    depth = 0
    key: str | None = None
    for match in _TOKEN.finditer(data[:_HEAD].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")):
        piece = match.group()
        if piece == '"':  # a text that does not end: what follows cannot be told apart
            break
        if piece in "{[":
            depth += 1
        elif piece in "}]":
            depth -= 1
        elif piece == ",":
            key = None if depth == 1 else key
        elif depth == 1 and piece != ":":
            if key is None:
                key = piece.strip('"')
            elif key in ADDRESS_KEYS and key not in found:
                try:
                    found[key] = parse_json(piece)
                except ValueError:
                    continue
    return found
