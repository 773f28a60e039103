"""The script of every worker process. It sets up the process, then calls `serve` of a module of this package.

The script and its imports use only the standard library of Python 3.9 or newer, because the project's Python has no
packages of holodeck-action.

Arguments: file descriptor of the connection to the run, file descriptor of the lifeline (a pipe that closes when the
run ends), a folder, the folder of this package, and the name of the module. Its `serve(connection, folder)` answers
requests until the connection ends.
"""

from __future__ import annotations

import faulthandler
import io
import os
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location


def main() -> None:
    """Set up the process, and answer requests until the connection ends."""
    connection, lifeline, folder, package_folder, server = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    prepare(connection, lifeline)
    if not getattr(sys.flags, "safe_path", False):
        # Removes the folder of this script, whose modules must not hide other modules.
        del sys.path[0]
    # First, so that no module of the suite hides this package.
    sys.meta_path.insert(0, OurPackage(package_folder))
    from importlib import import_module

    serve = import_module(server).serve
    del sys.argv[1:]
    serve(connection, folder)


class OurPackage:
    """Import finder for this package, without other packages that are installed in the same folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of this package; None for other modules. (The package finds its submodules itself.)"""
        if name != os.path.basename(self._folder):
            return None
        file = os.path.join(self._folder, "__init__.py")
        return spec_from_file_location(name, file, submodule_search_locations=[self._folder])


def prepare(connection: int, lifeline: int) -> None:
    """Make the process end with the run, hide the connection from child processes, and enable crash dumps.

    Args:
        connection: file descriptor of the connection to the run.
        lifeline: file descriptor of the pipe that closes when the run ends.
    """
    _die_with_the_run(lifeline)
    os.set_inheritable(connection, False)
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _die_with_the_run(lifeline: int) -> None:
    """Make the kernel kill this process group when the lifeline closes, as it does when the run ends or crashes.

    Only on Linux. On other systems an idle worker ends when its connection ends.
    """
    os.set_inheritable(lifeline, False)
    if sys.platform == "linux":
        import fcntl
        import signal

        with suppress(OSError):
            fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
        # If memory runs out, the kernel kills this process, not the run.
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as adjustment:
            adjustment.write("1000")


if __name__ == "__main__":
    main()
