"""Notices that an agent changed files on which its verdict depends: of the checkout, or of this program."""

from __future__ import annotations

import os
import site
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import holodeck_action
from holodeck_action.extensions.agent_programs.workspace import WorkspaceError, walk
from holodeck_action.workers.bounded_programs import run_program
from holodeck_action.workers.permission import CodeAllowed

_GIT_S = 60.0
_MOST_LISTED = 50_000_000
_State = tuple[int, int, int] | None
"""Size, number and time of the last change of a file, which programs cannot set; None if there is no such file."""
_ANY_OWNER = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false")
"""In a container the checkout often belongs to another user, and Git would refuse to read it."""
_MODULES = (".py", ".so")
_PATH_FILES = (".pth",)
_AT_START = ("sitecustomize.py", "usercustomize.py")


class Guard:
    """The state of files when a run begins, and which modules are beside them."""

    def __init__(self, paths: Iterable[Path], whole: Iterable[Path], libraries: Iterable[Path], path: str) -> None:
        """Note the state.

        Args:
            paths: the files.
            whole: files, and folders of which new files matter, too.
            libraries: folders of installed packages, of which only what Python runs at its start matters.
            path: the PATH of commands in exams, whose programs matter; empty if there are no exams.
        """
        self._names = {place: _names(place) for place in whole}
        given = [*paths, *(place / name for place, names in self._names.items() for name in names)]
        at_start = [folder / name for folder in libraries for name in _AT_START]
        self._states = {path: _state(path) for path in (*given, *at_start)}
        suffixes = {path.parent: _MODULES for path in given} | dict.fromkeys(libraries, _PATH_FILES)
        self._path = path
        self._programs = {name: (place, _state(place)) for name, place in _programs(path).items()}
        self._modules = {folder: (kinds, _modules(folder, kinds)) for folder, kinds in suffixes.items()}

    def changed(self) -> Path | None:
        """Return a file that is no longer as it was, or a new one that takes the place of another; else None.

        A new module can take the place of one of the standard library, a new program that of one later on the PATH.
        """
        for path, state in self._states.items():
            if _state(path) != state:
                return path
        for place, names in self._names.items():
            for name in sorted(_names(place) - names):
                return place / name
        for folder, (kinds, names) in self._modules.items():
            for name in sorted(_modules(folder, kinds) - names):
                return folder / name
        programs = _programs(self._path)
        for name, (place, state) in self._programs.items():
            now = programs.get(name, place)
            if now != place or _state(place) != state:
                return now
        return None


def _names(place: Path) -> frozenset[str]:
    """Return the paths of all files in a folder; of a file, that to itself."""
    try:
        return frozenset(walk(place)) if place.is_dir() else frozenset(("",))
    except WorkspaceError:
        return frozenset()


def _programs(path: str) -> Mapping[str, Path]:
    """Return the first file of each name on a PATH."""
    found: dict[str, Path] = {}
    for folder in filter(None, path.split(os.pathsep)):
        with suppress(OSError):
            found = {name: Path(folder, name) for name in os.listdir(folder)} | found
    return found


def _state(path: Path) -> _State:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size, status.st_ino, status.st_ctime_ns


def _modules(folder: Path, suffixes: tuple[str, ...]) -> frozenset[str]:
    """Return the names in a folder with certain suffixes, and those of packages."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(
                entry.name
                for entry in entries
                if entry.name.endswith(suffixes)
                or (suffixes is _MODULES and entry.is_dir() and os.path.exists(os.path.join(entry, "__init__.py")))
            )
    except OSError:
        return frozenset()


def own_files() -> Iterator[Path]:
    """Yield the files of this program but its bytecode, which Python writes while a run goes on."""
    root = Path(holodeck_action.__file__).parent
    yield from (root / name for name in walk(root))


def library_folders() -> Sequence[Path]:
    """Return the folders of installed packages, of this environment and of the user."""
    return [Path(folder) for folder in (*site.getsitepackages(), site.getusersitepackages())]


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
    top = _run([git, *_ANY_OWNER, "rev-parse", "--show-toplevel"], environ, code, folder)
    if top is None:
        return
    root = Path(top[0].removesuffix("\n"))
    yield from (root / name for name in _run([git, *_ANY_OWNER, "ls-files", "-z"], environ, code, root) or () if name)
    # They say which files Git ignores, and which programs it starts.
    yield from (root / ".git" / name for name in ("config", "info/exclude"))


def _run(arguments: Sequence[str], environ: Mapping[str, str], code: CodeAllowed, folder: Path) -> Sequence[str] | None:
    """Return the output of Git, split at null characters; None if it ended with an error."""
    result = run_program(arguments, environ, code=code, timeout_s=_GIT_S, max_bytes=_MOST_LISTED, folder=folder)
    return os.fsdecode(result.output.parse(bytes)).split("\0") if result.code == 0 else None
