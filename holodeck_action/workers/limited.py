"""Processes that compute by texts of a suite: killed at a deadline, held to a size, without secrets and checkout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holodeck_action.workers.pool import WorkerPool

_WORKER = Path(__file__).with_name("limited_worker.py")
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "SYSTEMROOT", "TMPDIR", "VIRTUAL_ENV")
"""Variables that such a process sees: what an interpreter needs to start, and no secret."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def limited_pool(environ: Mapping[str, str], *, size: int) -> WorkerPool:
    """Return a pool of such processes, kept between calls; none is started before the first call.

    Args:
        environ: the job's environment.
        size: most processes at once.
    """
    seen = {name: environ[name] for name in _PASSED_ON if name in environ}
    folder = _WORKER.parent
    return WorkerPool(folder, environ={**seen, **_ONE_THREAD}, cwd=folder, size=size, script=_WORKER)
