"""Processes that compute by texts of a suite: killed at a deadline, held to a size, without secrets and checkout."""

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
"""Variables that such a process sees: what an interpreter needs to start, and no secret."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

MEMORY_BYTES = 1 << 30
"""Most bytes of memory of its own: what a small file can be made to unpack to has no other bound."""


def limited_pool(environ: Mapping[str, str], *, size: int, redact: Redact) -> WorkerPool:
    """Return a pool of such processes, kept between calls; none is started before the first call.

    Args:
        environ: the job's environment.
        size: most processes at once.
        redact: removes secrets from what they raise.
    """
    # Not needed inside such a process.
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
    """Answer inside such a process: nothing of the checkout can be imported there."""
    import resource

    from holodeck_action.workers.serving import Server

    # Some systems know no such limit; there the deadline alone ends a conversion.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    Server(connection, folder, os.getcwd()).serve()


class OutOfTimeError(Exception):
    """A computation took longer than it may."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Break off what takes longer, in the main thread of a process.

    What does not return to the interpreter in time, such as one huge power, is left to the deadline of the call, which
    ends the process.

    Raises:
        OutOfTimeError: time ran out.
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
