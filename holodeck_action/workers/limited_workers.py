"""Worker processes with time and memory limits, in which untrusted files are parsed.

These processes have no secrets, and cannot import modules of the checkout.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holodeck_action.text.foreign import Redact
    from holodeck_action.workers.pool import WorkerPool

_PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "SYSTEMROOT", "TMPDIR", "VIRTUAL_ENV")
"""Environment variables that a limited process gets: those that Python needs to start."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

MEMORY_BYTES = 1 << 30
"""Maximum bytes of memory of a limited process, since even a small file may unpack to any size."""


def limited_worker_pool(environ: Mapping[str, str], *, size: int, redact: Redact) -> WorkerPool:
    """Return a pool of limited processes; none is started before the first call.

    Args:
        environ: the job's environment.
        size: maximum number of processes.
        redact: removes secrets from error messages.
    """
    # Imported late: a limited process imports this module, but does not need the pool.
    from holodeck_action.workers.permission import NO_CODE
    from holodeck_action.workers.pool import WorkerPool

    seen = {name: environ[name] for name in _PASSED_ON if name in environ}
    folder = Path(__file__).parent
    return WorkerPool(
        folder,
        environ={**seen, **_ONE_THREAD},
        cwd=folder,
        size=size,
        code=NO_CODE,
        redact=redact,
        server=__name__,
    )


def serve(connection: int, folder: str) -> None:
    """Answer calls inside a limited process.

    Args:
        connection: file descriptor of the connection to the run.
        folder: absolute path of the folder with the modules that may be called.
    """
    import resource

    from holodeck_action.workers.serving import Server

    # Some systems have no such limit; there only the deadline ends a conversion.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    Server(connection, folder, os.getcwd()).serve()


class OutOfTimeError(Exception):
    """A computation exceeded its time limit."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Return a context manager that interrupts its block after a time limit; for the main thread only.

    A single long operation of the interpreter, such as computing a huge power, is not interrupted. The deadline of the
    call then kills the process.

    Raises:
        OutOfTimeError: the limit was exceeded.
    """

    def stop(*_: object) -> None:
        raise OutOfTimeError(f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
