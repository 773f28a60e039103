"""A run on a worker of the cluster: opens the suite once, and runs its trials in a separate thread.

A session is a plugin of the Dask worker until its run ends or its coordinator has been silent for too long.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path

from distributed import Worker, WorkerPlugin
from msgspec.structs import replace

from holodeck_action.extensions.cluster.opening import RemoteSuite, open_remote_suite
from holodeck_action.extensions.cluster.packing import PackingError, unpack
from holodeck_action.extensions.cluster.values import REPORT_TOPIC, RemoteRun, RemoteTrial
from holodeck_action.llm.limits.budget import Amount
from holodeck_action.llm.wire import Counts
from holodeck_action.record.serialization import to_json
from holodeck_action.run.schedule import Trials
from holodeck_action.run.trials import grading_pool, trial_runner
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.values import Case
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets

REPORT_DELAY_S = 0.01
"""Seconds for which changes are collected before they are reported to the coordinator together."""
CHECK_S = 5.0
"""Seconds between two checks whether the coordinator is there."""
ORPHANED_S = 60.0
"""Seconds without a message from the coordinator after which a session ends."""
_COMMON_MODULES = (
    "llm.connections",
    "llm.limits.limits",
    "llm.network",
    "metrics.text_similarity",
    "targets.own_model.own_agent",
)
"""Modules of the package that most runs import at their start."""


class Session(WorkerPlugin):  # type: ignore[misc]
    """One run's state on this worker: its open suite and running trials."""

    def __init__(self, run: RemoteRun, packed: bytes) -> None:
        """Store the run; `packed` has the packed files of its checkout."""
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
        self._ready: RemoteSuite | None = None
        self._answered: list[str] = []
        self._imported: dict[str, str | None] = {}
        self._reported_calls, self._reported_spending = Counts(), Amount(0)
        self._heard_at = 0.0
        self._changed, self._ending, self._ended = asyncio.Event(), asyncio.Event(), threading.Event()

    async def setup(self, worker: Worker) -> None:
        """Start opening the suite in a thread."""
        self._worker = worker
        self._folder = Path(worker.local_directory) / f"holodeck-{self.id}"
        self._thread = threading.Thread(target=self._run_thread, name="holodeck-session", daemon=True)
        self._thread.start()

    async def teardown(self, worker: Worker) -> None:
        """Cancel running trials, and remove the files."""
        if self._thread is not None:
            self._request_end()
            await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def run_trial(self, case_id: str, index: int, token: str) -> bytes | None:
        """Run a trial and return it as JSON; None if the session has ended or the suite could not be opened.

        Waits if the suite is still being opened: Dask may send trials of a lost worker at that time.

        Args:
            case_id: id of the case.
            index: index of the trial.
            token: the coordinator's key for the trial, used in reports.
        """
        await self.opening_problem()
        if self._loop is None:
            return None
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._track_trial(case_id, index, token), self._loop)
        )

    async def opening_problem(self) -> str | None:
        """Wait until the suite is open; return why the suite cannot run on this worker, or None if it is ready to
        run."""
        # Other callers still wait if one of them is cancelled.
        return await asyncio.shield(asyncio.wrap_future(self._opened))

    def update(self, sharers: int) -> None:
        """Note that the coordinator is there, and use the accounts' limits as one of `sharers` workers."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._share, sharers)

    def _run_thread(self) -> None:
        try:
            unpack(self._packed, self._folder, self._run.files_digest)
            self._packed = b""
            self._ready = open_remote_suite(self._run, Path(os.path.realpath(self._folder)), os.environ)
            asyncio.run(self._serve())
        except ConfigurationError as error:
            self._fail_opening("; ".join(map(str, error.problems)))
        except (OSError, PackingError) as error:
            self._fail_opening(f"the files of the suite cannot be written: {error}")
        except Exception as error:  # noqa: BLE001 - its coordinator waits for an answer
            self._fail_opening(f"the suite cannot be opened: {type(error).__name__}: {error}")

    def _fail_opening(self, problem: str) -> None:
        if not self._opened.done():
            redactor = Redactor(environment_secrets({**os.environ, **self._run.environ}))
            self._opened.set_result(redactor.text(problem))

    async def _serve(self) -> None:
        assert self._ready is not None
        ready = self._ready.open_suite
        pool = grading_pool(ready)
        ready.resources.used.notify(self._imported.update)
        self._cases = {case.id: case for case in ready.cases}
        self._trials = trial_runner(ready, pool)
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._opened.set_result(None)
        reporting = asyncio.create_task(self._send_reports())
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

    def _request_end(self) -> None:
        self._ended.set()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)

    def _share(self, sharers: int) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        if self._ready is not None and self._ready.open_suite.resources.wire is not None:
            self._ready.open_suite.resources.wire.share(sharers)

    async def _send_reports(self) -> None:
        """Report answered trials to the coordinator soon, and end the session if the coordinator is gone."""
        loop = asyncio.get_running_loop()
        assert self._worker is not None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await self._changed.wait()
                await asyncio.sleep(REPORT_DELAY_S)
            self._changed.clear()
            answered, self._answered = self._answered, []
            if answered:
                self._worker.log_event(REPORT_TOPIC, {"run": self._run.id, "answered": answered})
            if loop.time() - self._heard_at > ORPHANED_S:
                # The coordinator is gone.
                self._worker.loop.add_callback(self._worker.plugin_remove, name=self._run.name)
                return

    async def _track_trial(self, case_id: str, index: int, token: str) -> bytes:
        task = asyncio.create_task(self._run_trial(case_id, index, token))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await task

    async def _run_trial(self, case_id: str, index: int, token: str) -> bytes:
        assert self._trials is not None
        trial = await self._trials.run(self._cases[case_id], index, self._report_answer(token))
        imported = dict(self._imported)
        self._imported.clear()
        assert self._ready is not None
        used = self._ready.open_suite.resources.used.take_unsent()
        return to_json(RemoteTrial(trial, self._new_calls(), self._new_spending(), imported, used))

    @asynccontextmanager
    async def _report_answer(self, token: str) -> AsyncIterator[None]:
        """At the end of the block, add to the next report that the agent has answered the trial."""
        yield
        self._answered.append(token)
        self._changed.set()

    def _new_calls(self) -> Counts:
        """Return the totals of model calls since the last report."""
        assert self._ready is not None
        wire = self._ready.open_suite.resources.wire
        if wire is None:
            return Counts()
        now, before = replace(wire.counts), self._reported_calls
        self._reported_calls = now
        return Counts(
            now.calls - before.calls,
            now.cached - before.cached,
            now.failed - before.failed,
            now.requests - before.requests,
            None if now.tokens is None or before.tokens is None else now.tokens - before.tokens,
            None if now.cost_usd is None or before.cost_usd is None else now.cost_usd - before.cost_usd,
            wire.notices,
        )

    def _new_spending(self) -> Amount:
        """Return the amount spent since the last report."""
        assert self._ready is not None
        if self._ready.budget is None:
            return Amount(0)
        now, before = self._ready.budget.spent_amount, self._reported_spending
        self._reported_spending = now
        return Amount(now.tokens - before.tokens, now.cost_usd - before.cost_usd)


def dask_setup(worker: Worker) -> None:
    """Import modules that most runs need; Dask calls this function if it preloads this module."""
    for name in _COMMON_MODULES:
        import_module(f"holodeck_action.{name}")
