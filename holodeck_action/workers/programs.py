"""Looks up programs installed on the machine, ignoring those in a checkout.

Uses only the standard library of Python 3.9 or newer, for `runner/start.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_MOST_LINKS = 40
"""Maximum number of symbolic links that the system follows for one path (path_resolution(7))."""


def leads_into(path: str | Path, folder: str) -> bool:
    """Return whether a path is in a folder, or leads into it through symbolic links.

    `folder` must be absolute and contain no symbolic links. A path with too many links counts as leading into it.
    """
    place = os.fspath(path)
    for _ in range(_MOST_LINKS):
        above, name = os.path.split(place)
        place = os.path.join(os.path.realpath(above), name)
        if f"{place}{os.sep}".startswith(f"{folder.rstrip(os.sep)}{os.sep}"):
            return True
        if not os.path.islink(place):
            return False
        place = os.path.join(os.path.dirname(place), os.readlink(place))
    return True


def folders_outside(path: str, checkout: Path) -> Iterator[str]:
    """Yield the folders of a `PATH` that are not in a checkout; relative and empty entries are skipped."""
    root = os.path.realpath(checkout)
    for folder in path.split(os.pathsep):
        if os.path.isabs(folder) and not leads_into(os.path.join(folder, "."), root):
            yield folder


def program_outside(name: str, path: str, checkout: Path) -> str | None:
    """Return the path of the first program called `name` on a `PATH`, skipping the checkout; None if not found."""
    root = os.path.realpath(checkout)
    for folder in folders_outside(path, checkout):
        file = os.path.join(folder, name)
        if os.path.isfile(file) and os.access(file, os.X_OK) and not leads_into(file, root):
            return file
    return None
