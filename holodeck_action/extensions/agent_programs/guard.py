"""Notices that an agent changed files on which its verdict depends: of the checkout, or of this program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import holodeck_action
from holodeck_action.workers.bounded_programs import run_program
from holodeck_action.workers.permission import CodeAllowed

_GIT_S = 60.0
_MOST_LISTED = 50_000_000
_State = tuple[int, int, int] | None
"""Size, number and time of the last change of a file, which programs cannot set; None if there is no such file."""


class Guard:
    """The state of files when a run begins."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._states = {path: _state(path) for path in paths}

    def changed(self) -> Path | None:
        """Return a file that is no longer as it was; None if there is none."""
        return next((path for path, state in self._states.items() if _state(path) != state), None)


def _state(path: Path) -> _State:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size, status.st_ino, status.st_ctime_ns


def own_files() -> Iterator[Path]:
    """Yield the source files of this program."""
    yield from Path(holodeck_action.__file__).parent.rglob("*.py")


def tracked_files(folder: Path, git: str | None, environ: Mapping[str, str], code: CodeAllowed) -> Iterator[Path]:
    """Yield the files that Git tracks in the repository of a folder; nothing if it is in no repository.

    Args:
        folder: a folder of the repository.
        git: path of the program; None if it is not installed.
        environ: the whole environment of the program.
        code: the permission to start it.

    Raises:
        OSError: the program cannot be started.
        ProgramError: it took too long.
    """
    if git is None:
        return
    top = run_program(
        [git, "-C", str(folder), "rev-parse", "--show-toplevel"],
        environ,
        code=code,
        timeout_s=_GIT_S,
        max_bytes=10_000,
    )
    if top.code != 0:
        return
    root = Path(os.fsdecode(top.output.parse(bytes)).rstrip("\n"))
    listed = run_program(
        [git, "-C", str(root), "-c", "core.fsmonitor=false", "ls-files", "-z"],
        environ,
        code=code,
        timeout_s=_GIT_S,
        max_bytes=_MOST_LISTED,
    )
    names = os.fsdecode(listed.output.parse(bytes)).split("\0")
    yield from (root / name for name in names if name)
