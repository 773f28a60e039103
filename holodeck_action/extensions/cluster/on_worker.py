"""Functions that a coordinator calls on workers; Dask finds them by name.

The scheduler also imports this module, to find the names, so the import must be fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributed import get_worker

from holodeck_action import __version__

if TYPE_CHECKING:
    from distributed import Worker

    from holodeck_action.extensions.cluster.values import RemoteRun


def tool_version() -> str:
    """Return the version of holodeck-action on this worker."""
    return __version__


async def open_session(run: RemoteRun, packed: bytes) -> str | None:
    """Open the suite of a run from its packed files; return why the suite cannot run on this worker, or None if it is
    ready to run."""
    from holodeck_action.extensions.cluster.session import Session

    worker = get_worker()
    session = worker.plugins.get(run.name)
    if session is None:
        session = Session(run, packed)
        await worker.plugin_add(session, run.name)
    problem: str | None = await session.opening_problem()
    if problem is not None and run.name in worker.plugins:
        await worker.plugin_remove(name=run.name)
    return problem


async def run_trial(name: str, case_id: str, index: int, token: str) -> bytes | str:
    """Run a trial in the named session; return it as JSON, or this worker's URL if there is no such session."""
    worker = get_worker()
    session = worker.plugins.get(name)
    done: bytes | None = None if session is None else await session.run_trial(case_id, index, token)
    return str(worker.address) if done is None else done


async def update_session(name: str, sharers: int, dask_worker: Worker) -> None:
    """Tell the named session that its coordinator is there, and how many workers share the limits of accounts."""
    session = dask_worker.plugins.get(name)
    if session is not None:
        session.update(sharers)


async def close_session(name: str, dask_worker: Worker) -> None:
    """End the named session."""
    if name in dask_worker.plugins:
        await dask_worker.plugin_remove(name=name)
