"""Paths as the user wrote them: messages show the written form, and files are opened relative to the working folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GivenPath:
    """A path from the command line or an input. `str` gives it as written, `os.fspath` its absolute location.

    Attributes:
        given: the path as written.
        start: absolute folder from which a relative path starts.
    """

    given: Path
    start: Path

    @property
    def path(self) -> Path:
        """The absolute location."""
        return self.start / self.given

    @property
    def real(self) -> Path:
        """The location with all links resolved, as far as they can be: a link to itself stays as it is."""
        return Path(os.path.realpath(self.path))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.given.name

    @property
    def parent(self) -> GivenPath:
        """The folder that contains this path."""
        return GivenPath(self.given.parent, self.start)

    def written_path(self, path: str | os.PathLike[str]) -> GivenPath:
        """Return `path`, which is in this folder; the result begins with this folder as the user wrote it."""
        return self / os.path.relpath(path, self)

    def __str__(self) -> str:
        return str(self.given)

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __truediv__(self, name: str | os.PathLike[str]) -> GivenPath:
        return GivenPath(self.given / name, self.start)
