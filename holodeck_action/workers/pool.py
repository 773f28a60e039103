"""Worker processes for user code: a pool for graders and Python targets, and a dedicated worker for code with state.

Each worker performs one call at a time and is reused. After a deadline, a cancelled call or a failure, a worker is
killed with every process that it started, and replaced when the next call needs it.
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
"""Time limit for importing the module of a callable, in seconds."""

MAX_RESULT_BYTES = 1_000_000
"""Default maximum bytes of a result."""


Operation = Literal["grade", "source", "ask", "tool", "rows"]


class Lease:
    """A slot of a pool whose calls all use one worker; if the worker has been ended, the next call gets a new one."""

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
    def finished_work(self) -> set[str]:
        """References that the worker has imported, and marks that the lease's holder adds for one-time work."""
        return set() if self._worker is None else self._worker.loaded

    async def check(self, reference: str) -> None:
        """Import `module.path:callable` in the worker; see `WorkerPool.check`."""
        await self._prepare_worker(reference)

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
        await self._prepare_worker(reference)
        return await self._ask({"op": op, "reference": reference, **payload}, timeout_s, max_bytes)

    async def end(self) -> None:
        """Return the slot to the pool; it may be called after a failed or cancelled call."""
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

    async def _prepare_worker(self, reference: str) -> None:
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
    """Calls functions of user code in at most `size` worker processes. An instance belongs to one event loop.

    The time limit of a call starts when a worker is free and has imported the callable's module.
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
        """Create the pool; no process is started before the first call.

        Args:
            folder: absolute path of the suite's folder, first on the workers' module path.
            environ: the job's environment; workers get it without the job's tokens.
            cwd: absolute path of the workers' working folder, second on their module path.
            size: maximum number of workers, at least 1.
            code: the permission to start workers, with or without code of the checkout.
            redact: removes secrets from the workers' output and errors.
            server: module that answers in the workers (see `WorkerProcess`).
            imported: called with the files of the checkout that a worker has imported (see `WorkerProcess`).
            interpreter: absolute path of the workers' Python, 3.9 or newer; None to use the program's own.
            spans: whether workers collect the spans of their calls.
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
        """Wait for a free slot and return a lease of it, which performs several calls in one worker."""
        await self._slots.acquire()
        return Lease(self._take, self._give_back, self._slots.release)

    async def check(self, reference: str) -> None:
        """Import `module.path:callable` in a worker.

        Raises:
            UserCodeError: the callable cannot be imported in time, or is not callable.
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
            op: `grade` with `{context: fields of GraderContext}` returns `{kind: bare, score}` or `{kind: verdict,
                score, passed, reason, details}`; `source` without arguments returns a digest of a grader's code; `ask`
                with the `{request}` of a turn returns the callable's reply; `tool` with `{args}`, arguments by name,
                returns `{value, bytes, cut}`; `rows` with `{args, rows}` writes the yielded rows as JSON Lines to the
                file `rows`, and returns their number.
            reference: `module.path:callable`; the callable may be sync or async.
            payload: arguments of the operation as JSON values.
            timeout_s: time limit in seconds; None if there is no limit.
            max_bytes: maximum size of the result in bytes.

        Raises:
            UserCodeError: the call gave no usable result.
        """
        async with await self.lease() as lease:
            return await lease.call(op, reference, payload, timeout_s, max_bytes=max_bytes)

    async def close(self) -> None:
        """End all workers; calls in progress fail with code `closed`."""
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
            # A cancelled call waits too: its process ends with it.
            await asyncio.shield(self._end(worker))

    def _end(self, worker: WorkerProcess) -> asyncio.Task[None]:
        ending = worker.close()
        ending.add_done_callback(lambda _: self._workers.discard(worker))
        return ending


class DedicatedWorker:
    """Calls functions in files, one after the other in order of arrival, all in one process.

    The process starts with the first call. After a timeout, crash or cancelled call, the next call gets a new process
    with freshly imported modules.
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
        """Create the worker; no process is started before the first call.

        Args:
            folder: absolute path of the suite's folder, first on the module path.
            environ: the job's environment; the process gets it without the job's tokens.
            cwd: absolute path of the process's working folder, second on the module path.
            code: the permission to start the process.
            redact: removes secrets from the process's output and errors.
            imported: called with the files of the checkout that the process has imported (see `WorkerProcess`).
            interpreter: absolute path of the process's Python, 3.9 or newer; None to use the program's own.
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
        """Import a function and return its description for the model (see `tool_functions.describe`).

        Raises:
            UserCodeError: the callable cannot be imported in time, or is not callable.
        """
        async with self._turn:
            request = {"op": "describe", **_function_request(file, function)}
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
            file: path of the function's file, relative to the suite's folder.
            function: name of a callable in the file; sync or async.
            args: arguments by name, JSON values.
            timeout_s: time limit in seconds, not counting imports and earlier calls; None if there is no limit.
            max_bytes: maximum size of the result's text in bytes; a longer text is truncated.
            begins: called when the function has been imported and its call begins.

        Returns:
            `{value, bytes, cut}` (see `tool_functions.bounded_result`); user code may have forged it.

        Raises:
            UserCodeError: the call gave no usable result.
        """
        named = _function_request(file, function)
        async with self._turn:
            if self._worker is None or not self._worker.alive or named["reference"] not in self._worker.loaded:
                await self._ask({"op": "prepare", **named}, IMPORT_TIMEOUT_S, MAX_RESULT_BYTES)
                if self._worker is not None:
                    self._worker.loaded.add(named["reference"])
            begins()
            return (await self._ask({"op": "tool", "args": args, **named}, timeout_s, max_bytes)).value

    async def close(self) -> None:
        """End the process and its descendants; a call in progress fails with code `closed`."""
        self._closed = True
        if self._worker is not None and self._turn.locked():
            self._worker.interrupt()
        async with self._turn:
            if self._worker is not None:
                await asyncio.shield(self._end(self._worker))

    async def _ask(self, request: Mapping[str, Any], timeout_s: float | None, max_bytes: int) -> Outcome:
        worker = await self._living_worker(request["reference"])
        try:
            return await worker.ask(request, timeout_s, max_bytes)
        finally:
            if not (worker.settled and worker.alive):
                # A cancelled call waits too: its process ends with it.
                await asyncio.shield(self._end(worker))

    async def _living_worker(self, reference: str) -> WorkerProcess:
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


def _function_request(file: str, function: str) -> dict[str, str]:
    return {"reference": f"{file}:{function}", "file": file, "function": function}
