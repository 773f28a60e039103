"""Imports beside the run: in a thread of their own, while nobody else imports anything new.

A thread that imports a part of a package which another one is in the middle of begins where no single thread ever
does, and both meet modules that are not finished; where each waits for the other, Python gives one of them such a
module, too. Here only one thread ever makes modules: an import statement of another thread whose modules are not all
there, finished, waits until the background is done, before it holds a module itself. What is there is had at once.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import FrameType, ModuleType
from typing import Any

_LONGEST_S = 60.0
"""Seconds after which another thread imports all the same: the background may be waiting for that very thread."""

_MACHINERY = "importlib._bootstrap"

_ONE = threading.Lock()
"""Held while something is imported in the background; taken by who asks for it, given back by its thread."""


def in_background(jobs: Sequence[Callable[[], object]]) -> Future[None]:
    """Run imports in a thread, one after the other; other threads go on as long as they import nothing new.

    Where another one is under way, it is waited for first. Python's own end of a program waits for its imports: a
    thread that is cut off in the middle of one can take the process with it. Inside an import there is no thread:
    whoever imports cannot let others wait.

    Args:
        jobs: each imports something. Whether it fails is nothing to others: who needs the modules meets the error.

    Returns:
        Done when they are; at once where there are none.
    """
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    if not jobs or _importing(sys._getframe(1)):
        _do(jobs)
        future.set_result(None)
        return future
    _ONE.acquire()
    gate = _Gate()

    def work() -> None:
        gate.passed_by(threading.get_ident())
        try:
            _do(jobs)
        finally:
            gate.remove()
            _ONE.release()
            # Last of all: who waits may ask for the next import at once.
            future.set_result(None)

    # Put up here, where nothing is being imported, and not in the thread, when somebody may have begun to.
    gate.put_up()
    try:
        threading.Thread(target=work, name="import", daemon=False).start()
    except BaseException:
        gate.remove()
        _ONE.release()
        raise
    return future


def _do(jobs: Iterable[Callable[[], object]]) -> None:
    for job in jobs:
        with suppress(Exception, SystemExit):
            job()


class _Gate:
    """Stands in for `builtins.__import__`."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._thread: int | None = None
        self._import: Callable[..., ModuleType] = builtins.__import__

    def put_up(self) -> None:
        """Let nobody through who would import something new."""
        builtins.__import__ = self

    def passed_by(self, thread: int) -> None:
        """Let one thread through."""
        self._thread = thread

    def remove(self) -> None:
        """Let everybody through, for good."""
        # Somebody may have put a stand-in of his own before this one.
        if builtins.__import__ is self:
            builtins.__import__ = self._import
        self._open.set()

    def __call__(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if (
            not self._open.is_set()
            and threading.get_ident() != self._thread
            and not _there(name, globals, fromlist or (), level)
            and not _importing(sys._getframe(1))
        ):
            self._open.wait(_LONGEST_S)
        return self._import(name, globals, locals, fromlist, level)


def _there(name: str, importer: Mapping[str, object] | None, wanted: Sequence[str], level: int) -> bool:
    """Tell whether an import statement finds all that it names, finished; where that is not sure, it does not."""
    if level:
        package = (importer or {}).get("__package__")
        if not isinstance(package, str) or not package:
            return False
        try:
            name = importlib.util.resolve_name("." * level + name, package)
        except ImportError:
            return False
    if not _finished(name):
        return False
    found: Mapping[str, Any] = getattr(sys.modules[name], "__dict__", {})
    return all(each in found or _finished(f"{name}.{each}") for each in wanted)


def _finished(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _importing(frame: FrameType | None) -> bool:
    """Tell whether this is inside an import, which holds a module: whoever waited there could be waited for."""
    while frame is not None:
        if frame.f_globals.get("__name__") == _MACHINERY:
            return True
        frame = frame.f_back
    return False
