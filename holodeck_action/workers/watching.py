"""Notes which files of a checkout a worker process uses: those that its code imports, opens, lists, loads or runs.

Only the standard library of Python 3.9 or newer is used, because it runs in the project's Python.
"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holodeck_action.workers.code_errors import file_of_module

_MOST_BYTES = 150_000
"""Maximum bytes of the paths in one answer, so that the answer does not exceed its size limit."""
_MOST_ARGUMENTS = 1_000
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Watch(NamedTuple):
    """The files that a worker is to note, in the process of the run.

    Attributes:
        roots: absolute paths of the checkout's folder.
        on_use: called with the absolute paths of the files that a call has used, before its result is returned (see
            `FileWatch.new_files`); user code may have forged them.
    """

    roots: Sequence[str]
    on_use: Callable[[Sequence[str]], None]


class FileWatch:
    """Notes the files below a folder that this process uses from now on.

    A file that is only written is not used. What installed packages and the standard library consist of is left out.
    What a program opens that the code starts, and what a native library opens, cannot be seen.
    """

    def __init__(self, roots: Iterable[str]) -> None:
        """Start to watch.

        Args:
            roots: absolute paths of the checkout's folder.
        """
        self._roots = tuple(root.rstrip(os.sep) + os.sep for root in roots)
        paths = (sysconfig.get_paths().get(name) for name in _INSTALLED)
        self._installed = tuple({path + os.sep for path in (*paths, _OURS) if path})
        self._modules: set[str] = set()
        self._seen: set[str] = set()
        self._new: list[str] = []
        sys.addaudithook(self._note)

    def new_files(self) -> list[str]:
        """Return the absolute paths of files used since the last call, up to a limit; later calls return the rest. The
        path of a folder that was listed ends with a separator.
        """
        for name, module in list(sys.modules.items()):
            if name not in self._modules:
                self._modules.add(name)
                file = file_of_module(module)
                if isinstance(file, str):
                    self._add(file)
        count = size = 0
        for path in self._new:
            size += len(path)
            if size > _MOST_BYTES:
                break
            count += 1
        reported, self._new = self._new[:count], self._new[count:]
        return reported

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        read = _EVENTS.get(event)
        if read is not None:
            # An error here would be raised in the suite's code.
            with suppress(Exception):
                for path in read(args):
                    self._add(path)

    def _add(self, path: Any) -> None:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return
        found = os.path.abspath(path) + (os.sep if path.endswith(os.sep) else "")
        if found in self._seen or not found.startswith(self._roots) or found.startswith(self._installed):
            return
        self._seen.add(found)
        self._new.append(found)


def _opened(args: tuple[Any, ...]) -> Iterator[Any]:
    path, _, flags = args
    written = isinstance(flags, int) and (flags & os.O_ACCMODE == os.O_WRONLY or flags & os.O_TRUNC)
    if not written:
        yield path


def _scanned(args: tuple[Any, ...]) -> Iterator[Any]:
    path = "." if args[0] is None else args[0]
    if isinstance(path, (str, bytes)):
        yield os.path.join(os.fsdecode(path), "")


def _listed(args: tuple[Any, ...]) -> Iterator[Any]:
    # An import lists every folder of the module path.
    return iter(()) if args[0] in sys.path_importer_cache else _scanned(args)


def _loaded(args: tuple[Any, ...]) -> Iterable[Any]:
    return args[:1]


def _started(args: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the program and those of its arguments that are files."""
    words: list[Any] = []
    for part in args[:3]:
        words += part if isinstance(part, (list, tuple)) else [part]
    for word in words[:_MOST_ARGUMENTS]:
        if isinstance(word, (str, bytes)) and os.path.isfile(word):
            yield word


def _of_shell(args: tuple[Any, ...]) -> Iterator[Any]:
    command = args[0]
    return _started((shlex.split(os.fsdecode(command)),))


_EVENTS = {
    "open": _opened,
    "os.listdir": _listed,
    "os.scandir": _scanned,
    "ctypes.dlopen": _loaded,
    "sqlite3.connect": _loaded,
    "subprocess.Popen": _started,
    "os.exec": _started,
    "os.posix_spawn": _started,
    "os.spawn": _started,
    "os.system": _of_shell,
}
"""For each audit event of Python that tells of a file, a function that returns the paths."""
