"""The coordinator's side of a run on a Dask cluster: which workers take part, their trials, places and spending.

Dask sends trials to workers and runs them again where a worker is lost. What a run is stays here: journal, budget,
limits of accounts, record. Only workers that have opened the suite get trials.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
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
    tell_session,
    tool_version,
)
from holodeck_action.extensions.cluster.values import REPORTS, RemoteRun, RemoteTrial
from holodeck_action.llm.limits.shared_limits import SharedLimits
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import TrialRecord
from holodeck_action.record.serialization import from_json
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.plain import one_line

CONNECT_S = 15.0
FIRST_WORKER_S = 120.0
"""Seconds for the first worker to come: a cluster may have to start a machine."""
LOOK_S = 0.2
"""Seconds between two looks at which workers there are."""
CLOSE_S = 15.0
AGAIN_S = 0.2


class Cluster:
    """A run on a cluster, for the block of `async with`."""

    def __init__(
        self,
        address: str,
        run: RemoteRun,
        packed: bytes,
        *,
        lost: Callable[[str], None],
        tell: Callable[[str], None],
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            address: of the scheduler.
            run: what is run.
            packed: the files of the checkout.
            lost: told, once, why the cluster cannot be used any more.
            tell: takes a sentence on workers that come too late to refuse the run.
        """
        self._address, self._run, self._packed = address, run, packed
        self._files: Future | None = None
        """The files of the checkout as a worker got them first; others get them from those that have them."""
        self._sending = asyncio.Lock()
        self._lost, self._tell = lost, tell
        self._client: Client | None = None
        self._limits = SharedLimits(run.settings.concurrency, run.settings.rate_limit_wait_s)
        self._addresses: dict[str, str] = {}
        """Of sessions that have reported."""
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._ready: dict[str, None] = {}
        self._refused: set[str] = set()
        self._any = asyncio.Event()
        self._news = asyncio.Event()
        self._answered: dict[str, Callable[[], None]] = {}
        self._sent: dict[str, tuple[Future, list[str]]] = {}
        """What has been submitted, and for which workers, by Dask's key."""
        self._stranded: set[str] = set()
        self._tokens = itertools.count()
        self._telling: dict[str, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Connect, and open the suite on the workers that there are.

        Raises:
            ConfigurationError: there is no such cluster, it has no workers, or one of them cannot run the suite.
        """
        secure = self._address.startswith("tls:")
        # It shows a traceback of each connection that breaks off; what that means for the run is said by the run.
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
                    f"--cluster {self._address}: no scheduler of Dask can be used there "
                    f"({one_line(str(error), 300) or type(error).__name__}); see docs/cluster.md"
                ]
            ) from error
        try:
            self._client.subscribe_topic(REPORTS, self._reported)
            await self._open_all(await self._first_workers())
            self._tasks = [asyncio.create_task(work()) for work in (self._look, self._settle)]
            # Those that there were may be gone already.
            async with asyncio.timeout(FIRST_WORKER_S):
                await self._any.wait()
        except TimeoutError as error:
            await self._leave()
            raise ConfigurationError([self._without_workers()]) from error
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """End the run on all workers."""
        await self._leave()

    async def trial(self, case_id: str, index: int, answered: Callable[[], None]) -> RemoteTrial:
        """Run a trial on a worker, and on another one where that is lost.

        Args:
            case_id: the case.
            index: of the trial.
            answered: called, at most once, when the agent has answered and only grading is left.

        Raises:
            CancelledError: the run was stopped.
        """
        assert self._client is not None
        token = f"{self._run.id}-{next(self._tokens)}"
        self._answered[token] = answered
        try:
            for attempt in itertools.count():
                await self._any.wait()
                try:
                    data = await self._asked(case_id, index, token, attempt)
                except KilledWorker as error:
                    return RemoteTrial(_lost_trial(index, error.allowed_failures + 1))
                except (FutureCancelledError, ClosedClientError):
                    self._lost(f"the scheduler {self._address} was lost; --resume goes on when it is there again")
                    await asyncio.Event().wait()
                if isinstance(data, bytes):
                    return from_json(data, RemoteTrial)
                # A worker without a session of the run: all that have one are gone, or it has given its own up.
                self._forget(data)
                await asyncio.sleep(AGAIN_S)
            raise AssertionError("unreachable")
        finally:
            self._answered.pop(token, None)

    async def _asked(self, case_id: str, index: int, token: str, attempt: int) -> bytes | str:
        """Have one of the workers run a trial; return it, or the address, if any, of a worker that has no session."""
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
        self._sent[key] = (future, workers)
        try:
            data: bytes | str = await future
        except FutureCancelledError:
            if key in self._stranded:
                return ""
            raise
        except asyncio.CancelledError:
            with suppress(Exception):
                await future.cancel()
            raise
        except Exception as error:
            if isinstance(error, KilledWorker) or self._client.status == "running":
                raise
            # While a client closes, its futures fail with errors of many kinds.
            raise ClosedClientError(str(error)) from error
        finally:
            future.release()
            del self._sent[key]
            self._stranded.discard(key)
        return data

    async def _send_again(self) -> None:
        """Take back what Dask keeps for workers that are gone; `trial` submits it anew.

        While there is no worker at all, Dask forgets that others may run it, too.
        """
        assert self._client is not None
        under_way = {key for keys in (await self._client.processing()).values() for key in keys}
        for key, (future, workers) in list(self._sent.items()):
            if key not in under_way and not future.done() and self._ready.keys().isdisjoint(workers):
                self._stranded.add(key)
                await future.cancel()

    async def _first_workers(self) -> list[str]:
        assert self._client is not None
        until = time.monotonic() + FIRST_WORKER_S
        while True:
            workers = list(await self._client.nthreads())
            if workers:
                return workers
            if time.monotonic() > until:
                raise ConfigurationError([self._without_workers()])
            await asyncio.sleep(LOOK_S)

    def _without_workers(self) -> str:
        return (
            f"--cluster {self._address}: no worker was ready within {FIRST_WORKER_S:g} s; start some (docs/cluster.md)"
        )

    async def _open_all(self, workers: list[str]) -> None:
        found = await asyncio.gather(*(self._open(worker) for worker in workers))
        problems = [f"worker {worker}: {problem}" for worker, problem in zip(workers, found, strict=True) if problem]
        if problems:
            raise ConfigurationError(problems)

    async def _open(self, worker: str) -> str | None:
        """Open the suite on a worker; return why it cannot take part, None where it can or is gone."""
        version, gone = await self._ask(worker, tool_version)
        if gone:
            return None
        if version != __version__:
            has = f"version {version}" if isinstance(version, str) else "none that can be used"
            return (
                f"it needs version {__version__} of holodeck-action with the extra `cluster`, as the coordinator has, "
                f"and has {has}"
            )
        problem, gone = await self._open_with_files(worker)
        if isinstance(problem, Exception):
            return f"the suite cannot be opened: {type(problem).__name__}: {one_line(str(problem), 500)}"
        if problem is None and not gone:
            assert self._client is not None
            first = not self._ready
            self._ready[worker] = None
            self._any.set()
            # The scheduler tells at once what `_look` sees later; what it says of a worker has that one's address.
            self._client.subscribe_topic(worker, partial(self._happened, worker))
            if first and self._sent:
                await self._send_again()
        return None if problem is None else str(problem)

    async def _open_with_files(self, worker: str) -> tuple[str | Exception | None, bool]:
        """Open the suite on a worker; return why it cannot take part or what was raised, and whether it is gone."""
        assert self._client is not None
        while True:
            try:
                files = await self._sent_files(worker)
                future = self._client.submit(
                    open_session,
                    self._run,
                    files,
                    key=f"holodeck_open-{self._run.id}-{next(self._tokens)}",
                    workers=[worker],
                    pure=False,
                    # Before trials that wait there already.
                    priority=1,
                )
                result = asyncio.ensure_future(future.result())
                try:
                    while not (await asyncio.wait([result], timeout=LOOK_S))[0]:
                        if worker not in await self._client.nthreads():
                            return None, True
                    return await result, False
                finally:
                    result.cancel()
                    future.release()
            except FutureCancelledError:
                # The last worker with the files is gone.
                if worker not in await self._client.nthreads():
                    return None, True
                await asyncio.sleep(AGAIN_S)
            except (OSError, ValueError, KilledWorker, ClosedClientError) as error:
                return error, True
            except Exception as error:  # noqa: BLE001 - whatever opening raised there
                return error, False

    async def _sent_files(self, worker: str) -> Future:
        """Return the files as workers have them; they are sent to this one if none of them has them any more."""
        assert self._client is not None
        async with self._sending:
            if self._files is None or self._files.status in ("cancelled", "error"):
                self._files = await self._client.scatter(self._packed, workers=[worker], hash=False)
            return self._files

    async def _ask(self, worker: str, function: Callable[..., Any], *arguments: Any) -> tuple[Any, bool]:
        """Call a function on a worker; return its answer or what it raised, and whether the worker is gone."""
        assert self._client is not None
        try:
            answers = await self._client.run(function, *arguments, workers=[worker], on_error="return")
        except (OSError, ValueError, ClosedClientError) as error:
            return error, True
        answer = answers.get(worker)
        return answer, worker not in answers or isinstance(answer, OSError)

    async def _look(self) -> None:
        """Open the suite on workers that come, and see which are gone."""
        assert self._client is not None
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                workers = set(await self._client.nthreads())
            except (OSError, ValueError, ClosedClientError):
                continue
            for worker in [*self._ready, *self._refused, *self._opening]:
                if worker not in workers:
                    self._gone(worker)
            for worker in workers - self._ready.keys() - self._refused - self._opening.keys():
                self._opening[worker] = asyncio.create_task(self._open_late(worker))

    async def _open_late(self, worker: str) -> None:
        try:
            problem = await self._open(worker)
        finally:
            self._opening.pop(worker, None)
        if problem is not None:
            self._refused.add(worker)
            self._tell(f"worker {worker} takes no part: {problem}")

    def _forget(self, worker: str) -> None:
        """Give a worker no more trials until it has opened the suite."""
        self._ready.pop(worker, None)
        if not self._ready:
            self._any.clear()

    def _happened(self, worker: str, event: tuple[float, Mapping[str, Any]]) -> None:
        if event[1].get("action") == "remove-worker":
            self._gone(worker)

    def _gone(self, worker: str) -> None:
        self._forget(worker)
        self._refused.discard(worker)
        if (opening := self._opening.pop(worker, None)) is not None:
            opening.cancel()
        for session in [session for session, address in self._addresses.items() if address == worker]:
            del self._addresses[session]
            self._limits.lost(session, time.monotonic())
        self._news.set()

    def _reported(self, event: tuple[float, Mapping[str, Any]]) -> None:
        said = event[1]
        if said["run"] != self._run.id:
            return
        for token in said["answered"]:
            if (answered := self._answered.pop(token, None)) is not None:
                answered()
        self._addresses[said["session"]] = said["worker"]
        self._limits.reported(said["session"], said["leases"], time.monotonic())
        self._news.set()

    async def _settle(self) -> None:
        """Move places between workers when something has changed, and from time to time: gates open, leases end."""
        pending: dict[str, dict[str, Any]] = {}
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.wait(time.monotonic())):
                    await self._news.wait()
            self._news.clear()
            # Counts only rise: what could not be told yet is part of what is told next.
            pending |= self._limits.settle(time.monotonic())
            for session in [session for session in pending if session not in self._telling]:
                said = pending.pop(session)
                if (worker := self._addresses.get(session)) is not None:
                    task = self._telling[session] = asyncio.create_task(self._say(session, worker, said))
                    task.add_done_callback(lambda _, session=session: self._told(session))  # type: ignore[misc]

    async def _say(self, session: str, worker: str, said: dict[str, Any]) -> None:
        await self._ask(worker, tell_session, self._run.name, said)

    def _told(self, session: str) -> None:
        self._telling.pop(session, None)
        self._news.set()

    async def _leave(self) -> None:
        assert self._client is not None
        tasks = [*self._tasks, *self._opening.values(), *self._telling.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._client.run(close_session, self._run.name, workers=list(self._ready), on_error="ignore")
        with suppress(OSError, TimeoutError):
            await self._client.close(timeout=CLOSE_S)


def _lost_trial(index: int, times: int) -> TrialRecord:
    message = f"the trial was given up: {times} workers of the cluster died while they ran it; see their logs"
    return TrialRecord(index, (), ErrorInfo("WorkerLost", message, "worker_lost"), None)
