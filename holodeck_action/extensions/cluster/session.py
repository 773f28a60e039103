"""A run on a worker of the cluster: the suite opened once, its trials in an event loop of their own.

A session is a plugin of the worker until its run has ended, or nothing has been heard of its coordinator for a while.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from distributed import Worker, WorkerPlugin
from msgspec.structs import replace

from holodeck_action.extensions.cluster.opening import OpenedRemotely, open_remotely
from holodeck_action.extensions.cluster.shipping import ShippingError, unpack
from holodeck_action.extensions.cluster.values import REPORTS, RemoteRun, RemoteTrial
from holodeck_action.llm.limits.budget import Amount
from holodeck_action.llm.limits.leases import LEASE_S, Leases
from holodeck_action.llm.wire import Counts
from holodeck_action.record.serialization import to_json
from holodeck_action.run.schedule import Trials
from holodeck_action.run.trials import grading_pool, trials_of
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.values import Case
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets

GATHERING_S = 0.01
"""Seconds in which what there is to report gathers."""
HEARTBEAT_S = LEASE_S / 5
ORPHANED_S = 60.0
"""Seconds after which a session whose coordinator says nothing ends."""
_MOSTLY = ("llm.connections", "llm.limits.leases", "llm.network", "metrics.standard", "targets.own_model.own")
"""Modules below the package that most runs import when they begin."""


class Session(WorkerPlugin):  # type: ignore[misc]
    """A run on this worker."""

    def __init__(self, run: RemoteRun, packed: bytes) -> None:
        """Prepare; `packed` are the files of the checkout."""
        self.id = uuid.uuid4().hex
        self._opened: Future[str | None] = Future()
        self._run, self._packed = run, packed
        self._folder = Path()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: Worker | None = None
        self._tasks: set[asyncio.Task[bytes]] = set()
        self._cases: dict[str, Case] = {}
        self._trials: Trials | None = None
        self._ready: OpenedRemotely | None = None
        self._answered: list[str] = []
        self._imported: dict[str, str | None] = {}
        self._counted, self._charged = Counts(), Amount(0)
        self._heard_at = 0.0
        self._changed, self._ending, self._ended = asyncio.Event(), asyncio.Event(), threading.Event()
        self._leases = Leases(self._changed.set)

    async def setup(self, worker: Worker) -> None:
        """Begin to open the suite."""
        self._worker = worker
        self._folder = Path(worker.local_directory) / f"holodeck-{self.id}"
        self._thread = threading.Thread(target=self._work, name="holodeck-session", daemon=True)
        self._thread.start()

    async def teardown(self, worker: Worker) -> None:
        """End whatever goes on, and remove the files."""
        if self._thread is not None:
            self._end()
            await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def trial(self, case_id: str, index: int, token: str) -> bytes | None:
        """Run a trial; None where the session has ended, or could not begin.

        Dask gives the trials of a lost worker to any other, one that is still opening the suite, too.

        Args:
            case_id: the case.
            index: of the trial.
            token: what its coordinator calls it by.
        """
        await self.problem()
        if self._loop is None:
            return None
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._under_way(case_id, index, token), self._loop)
        )

    async def problem(self) -> str | None:
        """Return why the suite cannot run here, None where it can, once that is known."""
        # Others wait for it, too, when one of them is cancelled.
        return await asyncio.shield(asyncio.wrap_future(self._opened))

    def tell(self, said: dict[str, Any]) -> None:
        """Take what the coordinator says of places."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._take, said)

    def _work(self) -> None:
        try:
            unpack(self._packed, self._folder, self._run.files)
            self._packed = b""
            self._ready = open_remotely(self._run, Path(os.path.realpath(self._folder)), os.environ, self._leases)
            self._ready.ready.begin_judging()
            asyncio.run(self._serve())
        except ConfigurationError as error:
            self._cannot("; ".join(map(str, error.problems)))
        except (OSError, ShippingError) as error:
            self._cannot(f"the files of the suite cannot be written: {error}")
        except Exception as error:  # noqa: BLE001 - its coordinator waits for an answer
            self._cannot(f"the suite cannot be opened: {type(error).__name__}: {error}")

    def _cannot(self, problem: str) -> None:
        if not self._opened.done():
            redactor = Redactor(environment_secrets({**os.environ, **self._run.environ}))
            self._opened.set_result(redactor.text(problem))

    async def _serve(self) -> None:
        assert self._ready is not None
        ready = self._ready.ready
        pool = grading_pool(ready)
        ready.imported.tell(self._imported.update)
        self._cases = {case.id: case for case in ready.item.cases}
        self._trials = trials_of(ready, pool)
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._opened.set_result(None)
        reporting = asyncio.create_task(self._report())
        try:
            if not self._ended.is_set():
                await self._ending.wait()
        finally:
            self._loop = None
            reporting.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(reporting, *self._tasks, return_exceptions=True)
            await ready.close()
            await pool.close()

    def _end(self) -> None:
        self._ended.set()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)

    def _take(self, said: dict[str, Any]) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self._leases.told(said)

    async def _report(self) -> None:
        """Tell the coordinator what has changed, soon, and that the worker lives, from time to time."""
        loop = asyncio.get_running_loop()
        assert self._worker is not None
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._changed.wait()
                await asyncio.sleep(GATHERING_S)
            except TimeoutError:
                pass
            self._changed.clear()
            answered, self._answered = self._answered, []
            report = {"run": self._run.id, "session": self.id, "worker": self._worker.address, "answered": answered}
            self._worker.log_event(REPORTS, {**report, "leases": self._leases.report()})
            if loop.time() - self._heard_at > ORPHANED_S:
                # Whoever began the run is gone.
                self._worker.loop.add_callback(self._worker.plugin_remove, name=self._run.name)
                return

    async def _under_way(self, case_id: str, index: int, token: str) -> bytes:
        task = asyncio.create_task(self._run_trial(case_id, index, token))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await task

    async def _run_trial(self, case_id: str, index: int, token: str) -> bytes:
        assert self._trials is not None
        trial = await self._trials.run(self._cases[case_id], index, self._slot(token))
        imported = dict(self._imported)
        self._imported.clear()
        return to_json(RemoteTrial(trial, self._calls(), self._spent(), imported))

    @asynccontextmanager
    async def _slot(self, token: str) -> AsyncIterator[None]:
        """Hold nothing here: the coordinator counts who works at a time, and is told when the agent has answered."""
        yield
        self._answered.append(token)
        self._changed.set()

    def _calls(self) -> Counts:
        """Return what the model calls came to since the last time."""
        assert self._ready is not None
        wire = self._ready.ready.wire
        if wire is None:
            return Counts()
        now, before = replace(wire.counts), self._counted
        self._counted = now
        return Counts(
            now.calls - before.calls,
            now.cached - before.cached,
            now.failed - before.failed,
            now.requests - before.requests,
            None if now.tokens is None or before.tokens is None else now.tokens - before.tokens,
            None if now.cost_usd is None or before.cost_usd is None else now.cost_usd - before.cost_usd,
        )

    def _spent(self) -> Amount:
        """Return what was spent since the last time."""
        assert self._ready is not None
        if self._ready.budget is None:
            return Amount(0)
        now, before = self._ready.budget.spent, self._charged
        self._charged = now
        return Amount(now.tokens - before.tokens, now.cost_usd - before.cost_usd)


def dask_setup(worker: Worker) -> None:
    """Import what most runs need before there is one; Dask calls this where the module is preloaded."""
    for name in _MOSTLY:
        import_module(f"holodeck_action.{name}")
