"""The coordinator of a run on a Dask cluster: manages the workers, their trials, their shares of limits, and the
spending.

Dask sends trials to workers, and runs them again if a worker is lost. The coordinator keeps the run's journal, budget
and record, and tells each worker its share of the accounts' limits. Only workers that have opened the suite get trials.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from distributed import Client, Future, KilledWorker, Security
from distributed.client import ClosedClientError, FutureCancelledError

from holodeck_action import __version__
from holodeck_action.extensions.cluster.on_worker import (
    close_session,
    open_session,
    run_trial,
    tool_version,
    update_session,
)
from holodeck_action.extensions.cluster.values import REPORT_TOPIC, RemoteRun, RemoteTrial
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import TrialRecord
from holodeck_action.record.serialization import from_json
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.plain import one_line

CONNECT_S = 15.0
FIRST_WORKER_S = 120.0
"""Seconds to wait for the first worker: a cluster may have to start a machine."""
POLL_S = 0.2
"""Seconds between two checks of the list of workers."""
CLOSE_S = 15.0
HEARTBEAT_S = 2.0
"""Seconds between two messages to each worker."""
RETRY_S = 0.2


class Cluster:
    """A run on a cluster, as an async context manager."""

    def __init__(
        self,
        address: str,
        run: RemoteRun,
        packed: bytes,
        *,
        on_lost: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        """Store the settings; the connection is opened in `__aenter__`.

        Args:
            address: URL of Dask's scheduler.
            run: the run to send to workers.
            packed: archive of the checkout's files (see `packing.pack`).
            on_lost: called with the reason when the connection to the cluster is lost.
            note: called with a sentence about each worker that joins later and cannot run the suite.
        """
        self._address, self._run, self._packed = address, run, packed
        self._files: Future | None = None
        """Dask's future of the checkout's files, which are sent to one worker; other workers copy them from workers."""
        self._sending = asyncio.Lock()
        self._on_lost, self._note = on_lost, note
        self._client: Client | None = None
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._ready: dict[str, None] = {}
        self._sharers = 1
        self._refused: set[str] = set()
        self._has_workers = asyncio.Event()
        self._changed = asyncio.Event()
        self._answer_callbacks: dict[str, Callable[[], None]] = {}
        self._submitted: dict[str, tuple[Future, list[str]]] = {}
        """The submitted trials and the workers that may run them, by Dask's key."""
        self._unrunnable: set[str] = set()
        self._tokens = itertools.count()
        self._updates: dict[str, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Connect, and open the suite on the available workers.

        Raises:
            ConfigurationError: the cluster cannot be reached, has no workers, or has a worker that cannot run the
                suite.
        """
        secure = self._address.startswith("tls:")
        # Dask logs a traceback for each lost connection; the run itself reports the consequences.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            self._client = await Client(
                self._address,
                asynchronous=True,
                name="holodeck-action",
                timeout=CONNECT_S,
                set_as_default=False,
                security=Security(require_encryption=True) if secure else None,
            )
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise ConfigurationError(
                [
                    (
                        f"--cluster {self._address}: no usable Dask scheduler was found there "
                        f"({one_line(str(error), 300) or type(error).__name__}); see docs/cluster.md"
                    )
                ]
            ) from error
        try:
            self._client.subscribe_topic(REPORT_TOPIC, self._on_report)
            await self._open_all(await self._wait_for_workers())
            self._tasks = [asyncio.create_task(work()) for work in (self._watch_workers, self._update_workers)]
            # The first workers may be gone already.
            async with asyncio.timeout(FIRST_WORKER_S):
                await self._has_workers.wait()
        except TimeoutError as error:
            await self._shut_down()
            raise ConfigurationError([self._no_workers_message()]) from error
        except BaseException:
            await self._shut_down()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the run on all workers."""
        await self._shut_down()

    async def run_trial(self, case_id: str, index: int, answered: Callable[[], None]) -> RemoteTrial:
        """Run a trial on a worker, and again on another worker if the first is lost.

        Args:
            case_id: id of the case.
            index: index of the trial.
            answered: called, at most once, when the agent has answered and only grading remains.

        Raises:
            CancelledError: the run was stopped.
        """
        assert self._client is not None
        token = f"{self._run.id}-{next(self._tokens)}"
        self._answer_callbacks[token] = answered
        try:
            for attempt in itertools.count():
                await self._has_workers.wait()
                try:
                    data = await self._submit_trial(case_id, index, token, attempt)
                except KilledWorker as error:
                    return RemoteTrial(_lost_trial(index, error.allowed_failures + 1))
                except (FutureCancelledError, ClosedClientError):
                    self._on_lost(
                        f"the scheduler {self._address} was lost; --resume continues when it is available again"
                    )
                    await asyncio.Event().wait()
                if isinstance(data, bytes):
                    return from_json(data, RemoteTrial)
                # The worker has no session of the run: it ended, or no worker with a session is left.
                self._mark_not_ready(data)
                await asyncio.sleep(RETRY_S)
            raise AssertionError("unreachable")
        finally:
            self._answer_callbacks.pop(token, None)

    async def _submit_trial(self, case_id: str, index: int, token: str, attempt: int) -> bytes | str:
        """Run a trial on a worker; return the trial as JSON. If the worker has no session, return the worker's URL,
        which may be empty."""
        assert self._client is not None
        key, workers = f"holodeck_trial-{token}-{attempt}", list(self._ready)
        future = self._client.submit(
            run_trial,
            self._run.name,
            case_id,
            index,
            token,
            key=key,
            workers=workers,
            allow_other_workers=True,
            pure=False,
        )
        self._submitted[key] = (future, workers)
        try:
            data: bytes | str = await future
        except FutureCancelledError:
            if key in self._unrunnable:
                return ""
            raise
        except asyncio.CancelledError:
            with suppress(Exception):
                await future.cancel()
            raise
        except Exception as error:
            if isinstance(error, KilledWorker) or await self._is_connected():
                raise
            # While a client loses its scheduler or closes, its futures fail with various errors.
            raise ClosedClientError(str(error)) from error
        finally:
            future.release()
            del self._submitted[key]
            self._unrunnable.discard(key)
        return data

    async def _is_connected(self) -> bool:
        """Return whether the scheduler answers."""
        assert self._client is not None
        try:
            await self._client.nthreads()
        except (OSError, ValueError, ClosedClientError):
            return False
        return True

    async def _cancel_unrunnable(self) -> None:
        """Cancel the trials that Dask keeps waiting for lost workers; `run_trial` submits them again.

        If all workers allowed for a trial are lost, Dask would not give the trial to a new worker.
        """
        assert self._client is not None
        under_way = {key for keys in (await self._client.processing()).values() for key in keys}
        for key, (future, workers) in list(self._submitted.items()):
            if key not in under_way and not future.done() and self._ready.keys().isdisjoint(workers):
                self._unrunnable.add(key)
                await future.cancel()

    async def _wait_for_workers(self) -> list[str]:
        assert self._client is not None
        until = time.monotonic() + FIRST_WORKER_S
        while True:
            workers = list(await self._client.nthreads())
            if workers:
                return workers
            if time.monotonic() > until:
                raise ConfigurationError([self._no_workers_message()])
            await asyncio.sleep(POLL_S)

    def _no_workers_message(self) -> str:
        return (
            f"--cluster {self._address}: no worker was ready within {FIRST_WORKER_S:g} s; start workers "
            "(docs/cluster.md)"
        )

    async def _open_all(self, workers: list[str]) -> None:
        found = await asyncio.gather(*(self._open(worker, len(workers)) for worker in workers))
        problems = [f"worker {worker}: {problem}" for worker, problem in zip(workers, found, strict=True) if problem]
        if problems:
            raise ConfigurationError(problems)

    async def _open(self, worker: str, sharers: int) -> str | None:
        """Open the suite on a worker; return why the worker cannot run the suite. Return None if the worker is ready,
        or if it is lost."""
        version, gone = await self._call_worker(worker, tool_version)
        if gone:
            return None
        if version != __version__:
            has = f"version {version}" if isinstance(version, str) else "no usable version"
            return (
                f"it needs version {__version__} of holodeck-action with the extra `cluster`, as the coordinator has, "
                f"but has {has}"
            )
        problem, gone = await self._open_with_files(worker, sharers)
        if isinstance(problem, Exception):
            return f"the suite cannot be opened: {type(problem).__name__}: {one_line(str(problem), 500)}"
        if problem is None and not gone:
            assert self._client is not None
            first = not self._ready
            self._ready[worker] = None
            self._has_workers.set()
            self._changed.set()
            # The scheduler reports at once what `_watch_workers` finds later; the topic of a worker is its address.
            self._client.subscribe_topic(worker, partial(self._on_worker_event, worker))
            if first and self._submitted:
                await self._cancel_unrunnable()
        return None if problem is None else str(problem)

    async def _open_with_files(self, worker: str, sharers: int) -> tuple[str | Exception | None, bool]:
        """Open the suite on a worker; return the error or problem, if any, and whether the worker is lost."""
        assert self._client is not None
        while True:
            try:
                files = await self._send_files(worker)
                future = self._client.submit(
                    open_session,
                    replace(self._run, sharers=sharers),
                    files,
                    key=f"holodeck_open-{self._run.id}-{next(self._tokens)}",
                    workers=[worker],
                    pure=False,
                    # Before trials that are already queued there.
                    priority=1,
                )
                result = asyncio.ensure_future(future.result())
                try:
                    while not (await asyncio.wait([result], timeout=POLL_S))[0]:
                        if worker not in await self._client.nthreads():
                            return None, True
                    return await result, False
                finally:
                    result.cancel()
                    future.release()
            except FutureCancelledError:
                # The last worker with the files is lost.
                if worker not in await self._client.nthreads():
                    return None, True
                await asyncio.sleep(RETRY_S)
            except (OSError, ValueError, KilledWorker, ClosedClientError) as error:
                return error, True
            except Exception as error:  # noqa: BLE001 - whatever opening raised there
                return error, False

    async def _send_files(self, worker: str) -> Future:
        """Return Dask's future of the packed files; send the files to this worker if no worker has them."""
        assert self._client is not None
        async with self._sending:
            if self._files is None or self._files.status in ("cancelled", "error"):
                self._files = await self._client.scatter(self._packed, workers=[worker], hash=False)
            return self._files

    async def _call_worker(self, worker: str, function: Callable[..., Any], *arguments: Any) -> tuple[Any, bool]:
        """Call a function on a worker; return its result or exception, and whether the worker is lost."""
        assert self._client is not None
        try:
            answers = await self._client.run(function, *arguments, workers=[worker], on_error="return")
        except (OSError, ValueError, ClosedClientError) as error:
            return error, True
        answer = answers.get(worker)
        return answer, worker not in answers or isinstance(answer, OSError)

    async def _watch_workers(self) -> None:
        """Open the suite on new workers and remove lost workers, until cancelled."""
        assert self._client is not None
        while True:
            await asyncio.sleep(POLL_S)
            try:
                workers = set(await self._client.nthreads())
            except (OSError, ValueError, ClosedClientError):
                continue
            for worker in [*self._ready, *self._refused, *self._opening]:
                if worker not in workers:
                    self._remove_worker(worker)
            for worker in workers - self._ready.keys() - self._refused - self._opening.keys():
                self._opening[worker] = asyncio.create_task(self._open_new_worker(worker))

    async def _open_new_worker(self, worker: str) -> None:
        try:
            problem = await self._open(worker, max(self._sharers, len(self._ready) + 1))
        finally:
            self._opening.pop(worker, None)
        if problem is not None:
            self._refused.add(worker)
            self._note(f"worker {worker} is not used: {problem}")

    def _mark_not_ready(self, worker: str) -> None:
        """Send no more trials to the worker until the suite is open on it."""
        self._ready.pop(worker, None)
        if not self._ready:
            self._has_workers.clear()

    def _on_worker_event(self, worker: str, event: tuple[float, Mapping[str, Any]]) -> None:
        if event[1].get("action") == "remove-worker":
            self._remove_worker(worker)

    def _remove_worker(self, worker: str) -> None:
        self._mark_not_ready(worker)
        self._refused.discard(worker)
        if (opening := self._opening.pop(worker, None)) is not None:
            opening.cancel()
        self._changed.set()

    def _on_report(self, event: tuple[float, Mapping[str, Any]]) -> None:
        report = event[1]
        if report["run"] != self._run.id:
            return
        for token in report["answered"]:
            if (answered := self._answer_callbacks.pop(token, None)) is not None:
                answered()

    async def _update_workers(self) -> None:
        """Tell all workers regularly that the coordinator is there, and on changes how many they are."""
        while True:
            self._changed.clear()
            for worker in [worker for worker in self._ready if worker not in self._updates]:
                task = self._updates[worker] = asyncio.create_task(self._update(worker))
                task.add_done_callback(lambda _, worker=worker: self._updates.pop(worker, None))  # type: ignore[misc]
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._changed.wait()

    async def _update(self, worker: str) -> None:
        # Requests of lost workers may still be in progress, so the shares of the others do not grow.
        self._sharers = max(self._sharers, len(self._ready))
        await self._call_worker(worker, update_session, self._run.name, self._sharers)

    async def _shut_down(self) -> None:
        assert self._client is not None
        tasks = [*self._tasks, *self._opening.values(), *self._updates.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._client.run(close_session, self._run.name, workers=list(self._ready), on_error="ignore")
        with suppress(OSError, TimeoutError):
            await self._client.close(timeout=CLOSE_S)


def _lost_trial(index: int, lost_workers: int) -> TrialRecord:
    message = f"the trial was given up: {lost_workers} workers of the cluster died while they ran it; see their logs"
    return TrialRecord(index, (), ErrorInfo("WorkerLost", message, "worker_lost"), None)
