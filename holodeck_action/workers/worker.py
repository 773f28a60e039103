"""The script of every worker process: it prepares the process, then lets a module of this package answer requests.

The script and the modules that it imports use only the standard library of Python 3.9 or newer: the interpreter may be
the project's, which has none of our packages.

Arguments: file descriptor of the connection, file descriptor of the lifeline, a folder, the folder of our package, and
the name of the module whose `serve(connection, folder)` answers until the connection ends.
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
    """Prepare the process, and answer requests until the connection ends."""
    connection, lifeline, folder, package_folder, server = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    prepare(connection, lifeline)
    if not getattr(sys.flags, "safe_path", False):
        # The folder of this script, whose modules must not hide others.
        del sys.path[0]
    # First in `sys.meta_path`, so that no module of the suite hides ours.
    sys.meta_path.insert(0, OurPackage(package_folder))
    from importlib import import_module

    serve = import_module(server).serve
    del sys.argv[1:]
    serve(connection, folder)


class OurPackage:
    """Makes only this package importable: packages installed in the same folder stay off the module path."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of the package; None for every other module (submodules are found by the package itself)."""
        if name != os.path.basename(self._folder):
            return None
        file = os.path.join(self._folder, "__init__.py")
        return spec_from_file_location(name, file, submodule_search_locations=[self._folder])


def prepare(connection: int, lifeline: int) -> None:
    """Set up the process to end with the run, to keep its connection from child processes, and to print crash dumps."""
    _die_with_the_run(lifeline)
    os.set_inheritable(connection, False)
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _die_with_the_run(lifeline: int) -> None:
    """Have the kernel kill this process group when the run ends in any way, which closes the other end of a pipe.

    Only on Linux, where a pipe can send any signal; elsewhere an idle worker ends with its connection.
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
