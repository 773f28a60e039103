"""The imported file and the files that it names."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.yaml.document import Document, MarkedList, MarkedMap
from holodeck_action.suite.yaml.reading import read_foreign_yaml
from holodeck_action.text.foreign import Foreign, ForeignError, RefusedFileError, read_file

MOST_BYTES = 20_000_000
"""Size of a file that is read."""
MOST_CASES = 100_000
"""Cases of one import, and values of one of its lists."""
MOST_DEPTH = 120
"""Levels of a value."""
_BITS = 1000
"""Size of a number, which is a float, too."""


class UnfitError(Exception):
    """Something of the imported file has no equal; the message is a clause that says why, and what to do."""


class Place(Struct, frozen=True):
    """A place in the imported file or in one that it names; `file` is relative to the imported file's folder."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def exact(self) -> str:
        """It with the column."""
        return f"{self}:{self.column}"


class OutOfReachError(UnfitError):
    """A file that the imported one names is refused: it is outside of the checkout, data of Git, or no regular file."""


class Source:
    """The imported file, and the files that it names: these are read in its checkout only, and each one once."""

    def __init__(self, path: Path, shown: str, cwd: Path, *, node: bool = False) -> None:
        """Name the file.

        Args:
            path: where it is, absolute. The user names it, so that it may be anywhere.
            shown: how the user wrote it.
            cwd: the absolute working folder.
            node: whether Node.js is on the PATH.
        """
        self.path = path
        self.node = node
        self.shown = shown
        checkout = Checkout.of(path.parent, cwd)
        self._checkout = replace(checkout, way_out="allowed: files of the checkout; copy it there")
        self._found: dict[str, list[Path]] = {}
        self._texts: dict[Path, str] = {}
        self._data: dict[Path, Any] = {}

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return self.path.name

    @property
    def read(self) -> list[Path]:
        """The files that it names and that were read."""
        return list(self._texts)

    def content(self) -> Foreign:
        """Return its content.

        Raises:
            ConfigurationError: it cannot be read.
        """
        try:
            return read_file(self.path, MOST_BYTES)
        except OSError as error:
            raise ConfigurationError([f"{self.shown}: cannot be read: {error.strerror or error}"]) from None

    def document(self) -> Document:
        """Return its data as YAML, of which JSON is a part.

        Raises:
            ConfigurationError: it cannot be read, or is no YAML.
        """
        try:
            document = read_foreign_yaml(self.content(), file=self.shown)
        except ForeignError as error:
            raise ConfigurationError([f"{self.shown}: {error}"]) from None
        if document.problems:
            raise ConfigurationError([str(problem) for problem in document.problems])
        problem = json_problem(document.root)
        if problem:
            raise ConfigurationError([f"{self.shown}: {problem}"])
        return document

    def relative(self, path: Path) -> str:
        """Return a path as it is written from the imported file's folder."""
        return os.path.relpath(path, self.path.parent).replace(os.sep, "/")

    def matching(self, pattern: str) -> list[Path]:
        """Return the files that a pattern with `*` matches, or the file of this name, in the order of names.

        Raises:
            OutOfReachError: the pattern or one of the files is out of reach.
            UnfitError: there is none.
        """
        if pattern not in self._found:
            self._found[pattern] = self._matching(pattern)
        return self._found[pattern]

    def _matching(self, pattern: str) -> list[Path]:
        try:
            files = self._checkout.matching(pattern) or [self._checkout.folder / pattern]
        except OSError as error:
            raise _unfit(pattern, error) from None
        for path in files:
            try:
                self._checkout.check(path, MOST_BYTES)
            except OSError as error:
                raise _unfit(pattern if len(files) == 1 else self.relative(path), error) from None
        return files

    def named(self, name: str) -> Path:
        """Return the file of a name, or the first one that it matches.

        Raises:
            UnfitError: as `matching`.
        """
        return self.matching(name)[0]

    def text(self, path: Path) -> str:
        """Return a text file without a byte order mark.

        Raises:
            UnfitError: it cannot be read.
        """
        if path not in self._texts:
            try:
                self._texts[path] = self._checkout.read(path, MOST_BYTES).text()
            except ForeignError as error:
                raise UnfitError(f"the file {self.relative(path)} {error}") from None
            except OSError as error:
                raise _unfit(self.relative(path), error) from None
        return self._texts[path]

    def data(self, path: Path) -> Any:
        """Return the data of a YAML or JSON file, which must not be changed.

        Raises:
            UnfitError: it cannot be read.
        """
        if path not in self._data:
            self._data[path] = self.parse(self.text(path), self.relative(path))
        return self._data[path]

    def parse(self, text: str, file: str) -> Any:
        """Return the data of a YAML or JSON text.

        Args:
            file: how positions name it.

        Raises:
            UnfitError: it is neither.
        """
        try:
            document = read_foreign_yaml(Foreign(text.encode("utf-8", "surrogatepass")), file=file)
        except ForeignError as error:
            raise UnfitError(f"{file} {error}") from None
        if document.problems:
            raise UnfitError(str(document.problems[0]))
        problem = json_problem(document.root)
        if problem:
            raise UnfitError(f"{file} {problem}")
        return document.root


def _unfit(name: str, error: OSError) -> UnfitError:
    if isinstance(error, RefusedFileError):
        return OutOfReachError(f"the file {name} {error.clause}")
    if isinstance(error, FileNotFoundError):
        return UnfitError(f"the file {name} does not exist")
    return UnfitError(f"the file {name} cannot be read: {error.strerror or error}")


def place_of(file: str, value: Any, index: int | str | None = None) -> Place:
    """Return where a marked value stands, or what it holds under a key or at a position; the start for others."""
    if isinstance(value, MarkedList) and isinstance(index, int):
        return _place(file, value[index], value.value_position(index))
    if isinstance(value, MarkedMap) and index in value:
        return _place(file, value[index], value.value_position(index))
    return _place(file, value, (1, 1))


def _place(file: str, value: Any, position: tuple[int, int]) -> Place:
    marked = isinstance(value, MarkedMap | MarkedList)
    return Place(file, value.line, value.column) if marked else Place(file, *position)


def json_problem(value: Any) -> str:
    """Return why a value cannot be written as JSON, a clause; empty if it can."""
    left: list[tuple[Any, int]] = [(value, 0)]
    seen: set[int] = set()
    while left:
        item, depth = left.pop()
        if isinstance(item, str):
            if not item.isascii() and any("\ud800" <= character <= "\udfff" for character in item):
                return "holds half of a character (a lone surrogate)"
        elif isinstance(item, dict | list | tuple):
            if depth == MOST_DEPTH:
                return f"is nested more than {MOST_DEPTH} levels deep"
            # What aliases repeat is looked at once.
            if id(item) not in seen:
                seen.add(id(item))
                items = [*item.keys(), *item.values()] if isinstance(item, dict) else item
                left += ((each, depth + 1) for each in items)
        elif isinstance(item, float):
            if not math.isfinite(item):
                return f"holds {item}, which is no number of JSON"
        elif isinstance(item, int):
            if item.bit_length() > _BITS:
                return f"holds a number of more than {_BITS} bits"
        elif item is not None:
            return f"holds a value of type {type(item).__name__}, which JSON does not have"
    return ""


def plain(value: Any) -> Any:
    """Return data without its positions."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def without_none(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping of the values that are not None."""
    return {key: value for key, value in items if value is not None}
