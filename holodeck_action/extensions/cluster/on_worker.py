"""What a coordinator has workers do; Dask finds these functions by name.

The scheduler reads the names, too, and imports this module for it: nothing of weight is imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distributed import get_worker

from holodeck_action import __version__

if TYPE_CHECKING:
    from distributed import Worker

    from holodeck_action.extensions.cluster.values import RemoteRun


def tool_version() -> str:
    """Return the version of the program that this worker has."""
    return __version__


async def open_session(run: RemoteRun, packed: bytes) -> str | None:
    """Open the suite of a run on a worker, with the packed files; return why it cannot run here, None where it can."""
    from holodeck_action.extensions.cluster.session import Session

    worker = get_worker()
    session = worker.plugins.get(run.name)
    if session is None:
        session = Session(run, packed)
        await worker.plugin_add(session, run.name)
    problem: str | None = await session.problem()
    if problem is not None and run.name in worker.plugins:
        await worker.plugin_remove(name=run.name)
    return problem


async def run_trial(name: str, case_id: str, index: int, token: str) -> bytes | str:
    """Run a trial in the session of this name; return the address of this worker where it has none."""
    worker = get_worker()
    session = worker.plugins.get(name)
    done: bytes | None = None if session is None else await session.trial(case_id, index, token)
    return str(worker.address) if done is None else done


async def tell_session(name: str, said: dict[str, Any], dask_worker: Worker) -> None:
    """Tell the session of this name what the coordinator says of places."""
    session = dask_worker.plugins.get(name)
    if session is not None:
        session.tell(said)


async def close_session(name: str, dask_worker: Worker) -> None:
    """End the session of this name."""
    if name in dask_worker.plugins:
        await dask_worker.plugin_remove(name=name)
