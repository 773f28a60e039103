"""Positions that a repository can have: paths within it, lines from 1."""

from __future__ import annotations

import posixpath

from holodeck_action.suite.errors import SourceMark

_LAST = 2**31 - 1
"""Largest line and column: the API's are 32-bit integers."""
_LONGEST_PATH = 4096
"""Bytes of a path (`PATH_MAX` of Linux)."""


def usable(number: int) -> bool:
    """Tell whether a file can have such a line or column."""
    return 1 <= number <= _LAST


def repository_path(folder: str | None, source: SourceMark) -> str | None:
    """Return the path of a position's file in the suite's repository; None when no line of it can be meant.

    Args:
        folder: the suite's folder in its repository, as the record says; it may be invented, as a fork's record is.
        source: the position; its file may lie outside of the suite's folder, but not of the repository.
    """
    file = source.file
    if folder is None or not file or not usable(source.line):
        return None
    written = f"{folder}/{file}"
    if file.startswith("/") or folder.startswith("/") or "\\" in written or not written.isprintable():
        return None
    path = posixpath.normpath(posixpath.join(folder, file))
    if path in (".", "..") or path.startswith("../") or len(path.encode()) > _LONGEST_PATH:
        return None
    return path
