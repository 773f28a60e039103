"""The imported file and the files that it names."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.document import Document, MarkedList, MarkedMap
from holodeck_action.suite.reading import read_foreign_yaml
from holodeck_action.text.foreign import Foreign, ForeignError, read_file

MOST_BYTES = 20_000_000
"""Size of a file that is read."""


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


class Source(Struct, frozen=True):
    """The imported file.

    Attributes:
        path: where it is.
        shown: how the caller wrote it.
    """

    path: Path
    shown: str

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return self.path.name

    def content(self) -> Foreign:
        """Return its content.

        Raises:
            ConfigurationError: it cannot be read.
        """
        try:
            return _content(self.path)
        except OSError as error:
            raise ConfigurationError([f"{self.shown}: cannot be read: {error.strerror or error}"]) from None

    def document(self) -> Document:
        """Return its data as YAML, of which JSON is a part.

        Raises:
            ConfigurationError: it cannot be read, or is no YAML.
        """
        document = read_foreign_yaml(self.content(), file=self.shown)
        if document.problems:
            raise ConfigurationError([str(problem) for problem in document.problems])
        return document

    def named(self, written: str) -> Path:
        """Return the path of a file that is named in the imported one."""
        return self.path.parent / written

    def relative(self, path: Path) -> str:
        """Return a path as it is written from the imported file's folder."""
        return os.path.relpath(path, self.path.parent).replace(os.sep, "/")

    def matching(self, pattern: str) -> list[Path]:
        """Return the files that a pattern with `*` matches, or the file of this name, in the order of names.

        Raises:
            UnfitError: there is none.
        """
        try:
            found = sorted(glob.glob(pattern, root_dir=self.path.parent, recursive=True))
            files = [path for path in map(self.named, found or [pattern]) if path.is_file()]
        except (OSError, ValueError):
            files = []
        if not files:
            raise UnfitError(f"the file {pattern} does not exist")
        return files

    def text(self, path: Path) -> str:
        """Return a text file without a byte order mark.

        Raises:
            UnfitError: it cannot be read.
        """
        try:
            return _content(path).text()
        except ForeignError as error:
            raise UnfitError(f"the file {self.relative(path)} {error}") from None
        except OSError as error:
            raise UnfitError(f"the file {self.relative(path)} cannot be read: {error.strerror or error}") from None
        except ValueError:
            raise UnfitError("the name of a file has a character that no name has") from None

    def data(self, path: Path) -> Any:
        """Return a YAML or JSON file.

        Raises:
            UnfitError: it cannot be read.
        """
        document = read_foreign_yaml(Foreign(self.text(path).encode()), file=self.relative(path))
        if document.problems:
            raise UnfitError(str(document.problems[0]))
        return document.root


def _content(path: Path) -> Foreign:
    return read_file(path, MOST_BYTES)


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
