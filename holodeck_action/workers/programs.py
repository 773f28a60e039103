"""Programs of the machine, looked up without those that a checkout brings.

With nothing but the standard library of any Python from 3.9 on: `runner/start.py` looks them up, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_MOST_LINKS = 40
"""Links that the system follows (path_resolution(7))."""


def leads_into(path: str | Path, folder: str) -> bool:
    """Tell whether a path is in a folder, whose links are resolved, or leads there through any link."""
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
    """Yield the folders of a `PATH` that are not in a checkout; relative and empty ones are wherever a process is."""
    root = os.path.realpath(checkout)
    for folder in path.split(os.pathsep):
        if os.path.isabs(folder) and not leads_into(os.path.join(folder, "."), root):
            yield folder


def program_outside(name: str, path: str, checkout: Path) -> str | None:
    """Return the first program of a name on a `PATH` that is not in a checkout and no link into it; None for none."""
    root = os.path.realpath(checkout)
    for folder in folders_outside(path, checkout):
        file = os.path.join(folder, name)
        if os.path.isfile(file) and os.access(file, os.X_OK) and not leads_into(file, root):
            return file
    return None
