"""Worker processes for user code: a pool for graders and Python targets, and one of its own for what may keep state.

Each worker performs one call at a time and is reused. At a call's deadline, on its cancellation, and when anything is
wrong with a worker, it is killed with every process it started, and replaced when the next call needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from holodeck_action.text.foreign import Redact
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.permission import CodeAllowed, NoCode
from holodeck_action.workers.worker_process import USER_CODE, Imported, Outcome, WorkerProcess

IMPORT_TIMEOUT_S = 60.0
"""Seconds that importing the module of a callable may take."""

MAX_RESULT_BYTES = 1_000_000
"""Most bytes a result may hold unless its caller says otherwise."""


Operation = Literal["grade", "source", "ask", "tool", "rows"]


class Lease:
    """A place in a pool, with one worker for all its calls; one that had to be ended is replaced at the next call."""

    def __init__(
        self,
        take: Callable[[str], WorkerProcess],
        give_back: Callable[[WorkerProcess], Awaitable[None]],
        release: Callable[[], None],
    ) -> None:
        self._take = take
        self._give_back = give_back
        self._release = release
        self._worker: WorkerProcess | None = None

    @property
    def done(self) -> set[str]:
        """What its worker has imported or, as its holder notes here, done once; nothing before the first call."""
        return set() if self._worker is None else self._worker.loaded

    async def check(self, reference: str) -> None:
        """Have a worker that has imported `module.path:callable`; see `WorkerPool.check`."""
        await self._ready(reference)

    async def call(
        self,
        op: Operation,
        reference: str,
        payload: Mapping[str, Any],
        timeout_s: float | None,
        *,
        max_bytes: int = MAX_RESULT_BYTES,
    ) -> Outcome:
        """Call a callable of user code; see `WorkerPool.call`."""
        await self._ready(reference)
        return await self._ask({"op": op, "reference": reference, **payload}, timeout_s, max_bytes)

    async def end(self) -> None:
        """Give the place back; safe after a failed or cancelled call."""
        if self._worker is not None:
            worker, self._worker = self._worker, None
            try:
                await self._give_back(worker)
            finally:
                self._release()
        else:
            self._release()

    async def __aenter__(self) -> Lease:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def _ready(self, reference: str) -> None:
        if self._worker is not None and not self._worker.alive:
            ended, self._worker = self._worker, None
            await self._give_back(ended)
        if self._worker is None:
            self._worker = self._take(reference)
        if reference not in self._worker.loaded:
            worker = self._worker
            await self._ask({"op": "check", "reference": reference}, IMPORT_TIMEOUT_S, MAX_RESULT_BYTES)
            worker.loaded.add(reference)

    async def _ask(self, request: Mapping[str, Any], timeout_s: float | None, max_bytes: int) -> Outcome:
        worker = self._worker
        assert worker is not None
        try:
            return await worker.ask(request, timeout_s, max_bytes)
        finally:
            if not (worker.settled and worker.alive):
                self._worker = None
                await self._give_back(worker)


class WorkerPool:
    """Performs calls of user code, at most `size` at once; used within one event loop.

    A call's deadline begins when a worker is free and the callable's module imported there: neither waiting for other
    calls nor starting up counts against user code.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str],
        cwd: Path,
        size: int,
        code: CodeAllowed | NoCode,
        redact: Redact,
        server: str = USER_CODE,
        imported: Imported = lambda files: None,
        interpreter: Path | None = None,
        spans: bool = False,
    ) -> None:
        """Prepare the pool; no process is started before the first call.

        Args:
            folder: the suite's folder, absolute, first on the workers' module path.
            environ: the job's environment; the workers see it without the job's tokens.
            cwd: the workers' working folder, absolute, second on their module path.
            size: most workers at once, at least 1.
            code: the permission to start them: for code of the checkout, or for workers in which none runs.
            redact: removes secrets from what they print and raise.
            server: what answers in the workers (see `WorkerProcess`).
            imported: told which files of the checkout they have imported (see `WorkerProcess`).
            interpreter: the Python that they run, 3.9 or newer, absolute; None for ours.
            spans: whether they collect the spans of their calls.
        """
        self._folder = folder
        self._environ = job_environment(environ, interpreter)
        self._redact = redact
        self._interpreter = interpreter
        self._spans = spans
        self._cwd = cwd
        self._code = code
        self._server = server
        self._imported = imported
        self._slots = asyncio.Semaphore(size)
        self._idle: list[WorkerProcess] = []
        self._workers: set[WorkerProcess] = set()
        self._closed = False

    async def lease(self) -> Lease:
        """Wait for a place in the pool and hold it, so that several calls are performed by one worker."""
        await self._slots.acquire()
        return Lease(self._take, self._give_back, self._slots.release)

    async def check(self, reference: str) -> None:
        """Import `module.path:callable`.

        Raises:
            UserCodeError: it cannot be imported or called, or importing it failed or took too long.
        """
        async with await self.lease() as lease:
            await lease.check(reference)

    async def call(
        self,
        op: Operation,
        reference: str,
        payload: Mapping[str, Any],
        timeout_s: float | None,
        *,
        max_bytes: int = MAX_RESULT_BYTES,
    ) -> Outcome:
        """Call a callable of user code.

        Args:
            op: `grade` with `{context: fields of GraderContext}`, which gives `{kind: bare, score}` or `{kind: verdict,
                score, passed, reason, details}`; `source` with nothing, which gives a digest of a grader's code; `ask`
                with `{request}` of a turn, which gives what the callable returned; `tool` with `{args}`, arguments by
                name, which gives `{value, bytes, cut}`; or `rows` with `{args, rows}`, which writes what it yields as
                JSON Lines to the file `rows`, and gives their number.
            reference: `module.path:callable`; sync or async.
            payload: JSON values.
            timeout_s: seconds it may take; None for no limit.
            max_bytes: most bytes it may return.

        Raises:
            UserCodeError: it gave no usable result.
        """
        async with await self.lease() as lease:
            return await lease.call(op, reference, payload, timeout_s, max_bytes=max_bytes)

    async def close(self) -> None:
        """End all workers; calls under way fail with code `closed`."""
        self._closed = True
        for worker in self._workers.difference(self._idle):
            worker.interrupt()
        while self._idle:
            self._end(self._idle.pop())
        if self._workers:
            await asyncio.wait([worker.gone for worker in self._workers])

    async def __aenter__(self) -> WorkerPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _take(self, reference: str) -> WorkerProcess:
        if self._closed:
            raise UserCodeError(f"{reference}: not called, because the run has ended", "closed")
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            self._end(worker)
        try:
            worker = WorkerProcess(
                *(self._folder, self._environ, self._cwd, self._server, self._imported),
                *(self._interpreter, self._spans),
                code=self._code,
                redact=self._redact,
            )
        except OSError as error:
            raise UserCodeError(
                f"{reference}: no process can be started for it: {error.strerror or error}", "cannot_start"
            ) from None
        self._workers.add(worker)
        return worker

    async def _give_back(self, worker: WorkerProcess) -> None:
        if worker.settled and worker.alive and not self._closed:
            self._idle.append(worker)
        else:
            # A cancelled call waits too: when it is over, so is its process.
            await asyncio.shield(self._end(worker))

    def _end(self, worker: WorkerProcess) -> asyncio.Task[None]:
        ending = worker.close()
        ending.add_done_callback(lambda _: self._workers.discard(worker))
        return ending


class DedicatedWorker:
    """Performs calls of functions in files, one after the other in the order they came, all in one process.

    The process starts with the first call. One that had to be ended (a deadline, a crash, a cancelled call) is replaced
    when the next call needs it, which then meets freshly imported modules.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str],
        cwd: Path,
        code: CodeAllowed,
        redact: Redact,
        imported: Imported = lambda files: None,
        interpreter: Path | None = None,
    ) -> None:
        """Prepare the worker; no process is started before the first call.

        Args:
            folder: the suite's folder, absolute, first on the module path.
            environ: the job's environment; the process sees it without the job's tokens.
            cwd: its working folder, absolute, second on the module path.
            code: the permission to start it.
            redact: removes secrets from what it prints and raises.
            imported: told which files of the checkout it has imported (see `WorkerProcess`).
            interpreter: the Python that it runs, 3.9 or newer, absolute; None for ours.
        """
        self._imported = imported
        self._folder = folder
        self._environ = job_environment(environ, interpreter)
        self._interpreter = interpreter
        self._cwd = cwd
        self._code = code
        self._redact = redact
        self._turn = asyncio.Lock()
        self._worker: WorkerProcess | None = None
        self._closed = False

    async def describe(self, file: str, function: str) -> Any:
        """Import a function and return its description (see `tool_functions.described`).

        Raises:
            UserCodeError: it cannot be imported or called, or importing it failed or took too long.
        """
        async with self._turn:
            request = {"op": "describe", **_named(file, function)}
            return (await self._ask(request, IMPORT_TIMEOUT_S, MAX_RESULT_BYTES)).value

    async def call(
        self,
        file: str,
        function: str,
        args: Mapping[str, Any],
        timeout_s: float | None,
        *,
        max_bytes: int,
        begins: Callable[[], object],
    ) -> Any:
        """Call a function.

        Args:
            file: path relative to the suite's folder.
            function: name of a callable in it; sync or async.
            args: arguments by name, JSON values.
            timeout_s: seconds it may take, imports and waiting for earlier calls excluded; None for no limit.
            max_bytes: most bytes of the result's text that are handed over.
            begins: called when the work itself begins: the function is imported and its turn has come.

        Returns:
            `{value, bytes, cut}` (see `tool_functions.result`), as the process says: user code may have forged it.

        Raises:
            UserCodeError: it gave no usable result.
        """
        named = _named(file, function)
        async with self._turn:
            if self._worker is None or not self._worker.alive or named["reference"] not in self._worker.loaded:
                await self._ask({"op": "prepare", **named}, IMPORT_TIMEOUT_S, MAX_RESULT_BYTES)
                if self._worker is not None:
                    self._worker.loaded.add(named["reference"])
            begins()
            return (await self._ask({"op": "tool", "args": args, **named}, timeout_s, max_bytes)).value

    async def close(self) -> None:
        """End the process and its descendants; a call under way fails with code `closed`."""
        self._closed = True
        if self._worker is not None and self._turn.locked():
            self._worker.interrupt()
        async with self._turn:
            if self._worker is not None:
                await asyncio.shield(self._end(self._worker))

    async def _ask(self, request: Mapping[str, Any], timeout_s: float | None, max_bytes: int) -> Outcome:
        worker = await self._running(request["reference"])
        try:
            return await worker.ask(request, timeout_s, max_bytes)
        finally:
            if not (worker.settled and worker.alive):
                # A cancelled call waits too: when it is over, so is its process.
                await asyncio.shield(self._end(worker))

    async def _running(self, reference: str) -> WorkerProcess:
        if self._worker is not None and not self._worker.alive:
            await asyncio.shield(self._end(self._worker))
        if self._closed:
            raise UserCodeError(f"{reference}: not called, because the conversation has ended", "closed")
        if self._worker is None:
            try:
                self._worker = WorkerProcess(
                    self._folder,
                    self._environ,
                    self._cwd,
                    imported=self._imported,
                    interpreter=self._interpreter,
                    code=self._code,
                    redact=self._redact,
                )
            except OSError as error:
                raise UserCodeError(
                    f"{reference}: no process can be started for it: {error.strerror or error}", "cannot_start"
                ) from None
        return self._worker

    def _end(self, worker: WorkerProcess) -> asyncio.Task[None]:
        self._worker = None
        return worker.close()


def _named(file: str, function: str) -> dict[str, str]:
    return {"reference": f"{file}:{function}", "file": file, "function": function}
