"""Paths as the caller wrote them: messages show them so, files are opened where they lead."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GivenPath:
    """A path of the command line or of an input: as text what was given, as `os.PathLike` where it leads.

    Attributes:
        given: what was written.
        start: absolute folder at which a relative one starts.
    """

    given: Path
    start: Path

    @property
    def path(self) -> Path:
        """Where it leads."""
        return self.start / self.given

    @property
    def name(self) -> str:
        """The last part of it."""
        return self.given.name

    @property
    def parent(self) -> GivenPath:
        """The folder that it is in."""
        return GivenPath(self.given.parent, self.start)

    def below(self, path: str | os.PathLike[str]) -> GivenPath:
        """Return a path that begins where this one leads, written as this one was."""
        return self / os.path.relpath(path, self)

    def __str__(self) -> str:
        return str(self.given)

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __truediv__(self, part: str | os.PathLike[str]) -> GivenPath:
        return GivenPath(self.given / part, self.start)
