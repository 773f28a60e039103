"""Reads the imported file and the files that it refers to."""

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
"""Size of the largest file to read, in bytes."""
MOST_CASES = 100_000
"""Most cases of one import, and most values of a list in it."""
MOST_DEPTH = 120
"""Most nested levels of a value."""
_BITS = 1000
"""Most bits of an integer; a larger one does not fit into a float."""


class UnfitError(Exception):
    """Part of the imported file has no counterpart; the message is a clause with the reason and a remedy."""


class Place(Struct, frozen=True):
    """A position in an imported file; `file` is relative to the folder of the file to import."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def exact(self) -> str:
        """The position with its column."""
        return f"{self}:{self.column}"


class OutOfReachError(UnfitError):
    """A referenced file must not be read: it is outside the checkout, belongs to Git, or is not a regular file."""


class Source:
    """The imported file and the files that it refers to, which must be in the same checkout; each file is read once."""

    def __init__(self, path: Path, display_path: str, cwd: Path, *, node: bool = False) -> None:
        """Store the paths; nothing is read yet.

        Args:
            path: absolute path of the file, which may be outside of any checkout, since the user chose it.
            display_path: path of the file as the user wrote it, for messages.
            cwd: absolute path of the working folder.
            node: whether Node.js is on the PATH.
        """
        self.path = path
        self.node = node
        self.shown = display_path
        checkout = Checkout.of(path.parent, cwd)
        self._checkout = replace(checkout, hint="allowed: files of the checkout; copy it there")
        self._found: dict[str, list[Path]] = {}
        self._texts: dict[Path, str] = {}
        self._data: dict[Path, Any] = {}

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.name

    @property
    def root(self) -> Path:
        """The folder of the checkout, with its links resolved."""
        return Path(self._checkout.root_paths[0])

    @property
    def files_read(self) -> list[Path]:
        """The referenced files that have been read so far."""
        return list(self._texts)

    def content(self) -> Foreign:
        """Return the content of the imported file.

        Raises:
            ConfigurationError: the file cannot be read.
        """
        try:
            return read_file(self.path, MOST_BYTES)
        except OSError as error:
            raise ConfigurationError([f"{self.shown}: cannot be read: {error.strerror or error}"]) from None

    def document(self) -> Document:
        """Parse the imported file, which is YAML or JSON.

        Raises:
            ConfigurationError: the file cannot be read, is not valid YAML, or contains a value that JSON cannot
                represent.
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
        """Return a path relative to the imported file's folder."""
        return os.path.relpath(path, self.path.parent).replace(os.sep, "/")

    def files_matching(self, pattern: str) -> list[Path]:
        """Return the files that match a name or a pattern with `*`, sorted by name.

        Raises:
            OutOfReachError: the pattern or one of the files is outside the files that may be read.
            UnfitError: no file matches, or a file cannot be read.
        """
        if pattern not in self._found:
            self._found[pattern] = self._find_files(pattern)
        return self._found[pattern]

    def existing(self, pattern: str) -> list[Path]:
        """Return the files that match a name or a pattern with `*`, sorted by name; empty if there are none.

        Raises:
            UnfitError: as for `files_matching`.
        """
        try:
            found = any(path.exists() for path in self._checkout.matching_files(pattern))
        except OSError as error:
            raise _file_error(pattern, error) from None
        return self.files_matching(pattern) if found else []

    def _find_files(self, pattern: str) -> list[Path]:
        try:
            files = self._checkout.matching_files(pattern) or [self._checkout.folder / pattern]
        except OSError as error:
            raise _file_error(pattern, error) from None
        for path in files:
            try:
                self._checkout.check(path, MOST_BYTES)
            except OSError as error:
                raise _file_error(pattern if len(files) == 1 else self.relative(path), error) from None
        return files

    def file_named(self, name: str) -> Path:
        """Return the first file that matches a name or pattern.

        Raises:
            UnfitError: as for `files_matching`.
        """
        return self.files_matching(name)[0]

    def text(self, path: Path) -> str:
        """Return the content of a referenced file without a byte order mark.

        Raises:
            UnfitError: the file cannot be read.
        """
        if path not in self._texts:
            try:
                self._texts[path] = self._checkout.read(path, MOST_BYTES).text()
            except ForeignError as error:
                raise UnfitError(f"the file {self.relative(path)} {error}") from None
            except OSError as error:
                raise _file_error(self.relative(path), error) from None
        return self._texts[path]

    def data(self, path: Path) -> Any:
        """Parse a referenced YAML or JSON file; callers must not change the returned data.

        Raises:
            UnfitError: the file cannot be read, or is invalid.
        """
        if path not in self._data:
            self._data[path] = self.parse(self.text(path), self.relative(path))
        return self._data[path]

    def parse(self, text: str, file: str) -> Any:
        """Parse YAML or JSON.

        Args:
            file: name of the file for positions and messages.

        Raises:
            UnfitError: the text is invalid, or contains a value that JSON cannot represent.
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


def _file_error(name: str, error: OSError) -> UnfitError:
    if isinstance(error, RefusedFileError):
        return OutOfReachError(f"the file {name} {error.clause}")
    if isinstance(error, FileNotFoundError):
        return UnfitError(f"the file {name} does not exist")
    return UnfitError(f"the file {name} cannot be read: {error.strerror or error}")


def place_of(file: str, value: Any, index: int | str | None = None) -> Place:
    """Return the position of a value, or of its item `index`; the start of the file if the position is unknown."""
    if isinstance(value, MarkedList) and isinstance(index, int):
        return _place_at(file, value[index], value.value_position(index))
    if isinstance(value, MarkedMap) and index in value:
        return _place_at(file, value[index], value.value_position(index))
    return _place_at(file, value, (1, 1))


def _place_at(file: str, value: Any, position: tuple[int, int]) -> Place:
    marked = isinstance(value, MarkedMap | MarkedList)
    return Place(file, value.line, value.column) if marked else Place(file, *position)


def json_problem(value: Any) -> str:
    """Return a clause with the reason why a value cannot be written as JSON; empty if the value is valid."""
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
            # Visit a value once, even if YAML aliases repeat it.
            if id(item) not in seen:
                seen.add(id(item))
                items = [*item.keys(), *item.values()] if isinstance(item, dict) else item
                left += ((each, depth + 1) for each in items)
        elif isinstance(item, float):
            if not math.isfinite(item):
                return f"holds {item}, which is not a JSON number"
        elif isinstance(item, int):
            if item.bit_length() > _BITS:
                return f"holds a number of more than {_BITS} bits"
        elif item is not None:
            return f"holds a value of type {type(item).__name__}, which JSON does not have"
    return ""


def plain(value: Any) -> Any:
    """Return a copy of loaded data with plain mappings and lists, without the loader's positions."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def without_none(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping of the items whose value is not None."""
    return {key: value for key, value in pairs if value is not None}
