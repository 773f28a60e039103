"""Worker processes for user code: a pool for graders and Python targets, and a dedicated worker for function tools.

A worker performs one call at a time, and many calls in sequence. After a deadline, a cancelled call or a crash, the
worker and its descendants are killed, and the next call starts a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holodeck_action.text.foreign import Redact
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.permission import CodeAllowed, NoCode

if TYPE_CHECKING:
    from holodeck_action.workers.watching import Watch
    from holodeck_action.workers.worker_process import Answering, OnImport, Outcome, WorkerProcess

USER_CODE = "holodeck_action.workers.serving"
"""Name of the module that answers calls of user code in a worker."""

IMPORT_TIMEOUT_S = 300.0
"""Time limit in seconds for importing the module of a callable."""

MAX_RESULT_BYTES = 1_000_000
"""Default maximum bytes of a result."""


Operation = Literal["grade", "source", "ask", "extend", "tool", "rows"]


class Lease:
    """The right to use one worker of a pool for several calls; if the worker ends, the next call gets a new one."""

    def __init__(
        self,
        take_worker: Callable[[str], WorkerProcess],
        return_worker: Callable[[WorkerProcess], Awaitable[None]],
        release: Callable[[], None],
        import_s: float,
    ) -> None:
        self._import_s = import_s
        self._take = take_worker
        self._give_back = return_worker
        self._release = release
        self._worker: WorkerProcess | None = None

    @property
    def finished_work(self) -> set[str]:
        """References of callables that the worker has imported. The holder of the lease may add names of other work
        that is done once per worker."""
        return set() if self._worker is None else self._worker.imported_references

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
        answering: Answering | None = None,
    ) -> Outcome:
        """Call a callable of user code; see `WorkerPool.call`."""
        await self._prepare_worker(reference)
        request = {"op": op, "reference": reference, **payload}
        return await self._call_worker(request, timeout_s, max_bytes, answering)

    async def end(self) -> None:
        """Return the worker to the pool. Call this even after a failed or cancelled call."""
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
        if self._worker is not None and not self._worker.is_alive:
            ended, self._worker = self._worker, None
            await self._give_back(ended)
        if self._worker is None:
            self._worker = self._take(reference)
        if reference not in self._worker.imported_references:
            worker = self._worker
            await self._call_worker({"op": "check", "reference": reference}, self._import_s, MAX_RESULT_BYTES)
            worker.imported_references.add(reference)

    async def _call_worker(
        self,
        request: Mapping[str, Any],
        timeout_s: float | None,
        max_bytes: int,
        answering: Answering | None = None,
    ) -> Outcome:
        worker = self._worker
        assert worker is not None
        try:
            return await worker.call(request, timeout_s, max_bytes, answering)
        finally:
            if not (worker.reusable and worker.is_alive):
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
        on_import: OnImport = lambda files: None,
        interpreter: Path | None = None,
        spans: bool = False,
        import_s: float = IMPORT_TIMEOUT_S,
        watch: Watch | None = None,
    ) -> None:
        """Create the pool; no process is started before the first call.

        Args:
            folder: absolute path of the suite's folder, first on the workers' module path.
            environ: the job's environment; workers get it without the job's tokens.
            cwd: absolute path of the workers' working folder, second on their module path.
            size: maximum number of workers, at least 1.
            code: the permission to start workers, with or without code of the checkout.
            redact: removes secrets from the workers' output and errors.
            server: name of the module that answers calls in the workers (see `WorkerProcess`).
            on_import: called with the files of the checkout that a worker has imported (see `WorkerProcess`).
            interpreter: absolute path of the workers' Python, 3.9 or newer; None to use the Python of this process.
            spans: whether workers collect the spans of their calls.
            import_s: time limit of one import, in seconds (`limits.import_timeout_s`).
            watch: the files that workers note when they use them; None to note none.
        """
        self._folder = folder
        self._environ = job_environment(environ, interpreter)
        self._redact = redact
        self._interpreter = interpreter
        self._spans = spans
        self._watch = watch
        self._cwd = cwd
        self._code = code
        self._server = server
        self._on_import = on_import
        self._import_s = import_s
        self._slots = asyncio.Semaphore(size)
        self._idle: list[WorkerProcess] = []
        self._workers: set[WorkerProcess] = set()
        self._closed = False

    async def lease(self) -> Lease:
        """Wait until a worker is free, and return a lease for it."""
        await self._slots.acquire()
        return Lease(self._take, self._give_back, self._slots.release, self._import_s)

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
        answering: Answering | None = None,
    ) -> Outcome:
        """Call a callable of user code.

        Args:
            op: the operation. `grade` calls a grader; payload `{context}`, the fields of `GraderContext`; result: see
                `grading.grade`. `source` returns the digest of a grader's source files; no payload. `ask` calls a
                Python target; payload `{request}`; result: its reply. `extend` calls the function of an extension with
                the callable; payload `{by, payload}`: its name, `module:function`, and its argument. `tool` calls a
                function; payload `{args}`, arguments by name; result `{value, bytes, cut}`. `rows` calls a function
                that yields cases; payload `{args, rows}`, of which `rows` is the file to write as JSON Lines; result:
                the number of rows.
            reference: `module.path:callable`; the callable may be sync or async.
            payload: arguments of the operation as JSON values.
            timeout_s: time limit in seconds; None if there is no limit.
            max_bytes: maximum size of the result, and of each question, in bytes.
            answering: answers the questions of an `extend` call.

        Raises:
            UserCodeError: the call gave no usable result.
        """
        async with await self.lease() as lease:
            return await lease.call(op, reference, payload, timeout_s, max_bytes=max_bytes, answering=answering)

    async def close(self) -> None:
        """End all workers. Calls in progress fail with code `closed`."""
        self._closed = True
        for worker in self._workers.difference(self._idle):
            worker.interrupt()
        while self._idle:
            self._end(self._idle.pop())
        if self._workers:
            await asyncio.wait([worker.ended for worker in self._workers])

    async def __aenter__(self) -> WorkerPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _take(self, reference: str) -> WorkerProcess:
        if self._closed:
            raise UserCodeError(f"{reference}: not called, because the run has ended", "closed")
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
            self._end(worker)
        # Many runs start no worker.
        from holodeck_action.workers.worker_process import WorkerProcess

        try:
            worker = WorkerProcess(
                *(self._folder, self._environ, self._cwd, self._server, self._on_import),
                *(self._interpreter, self._spans, self._watch),
                code=self._code,
                redact=self._redact,
            )
        except OSError as error:
            raise UserCodeError(
                f"{reference}: its process cannot be started: {error.strerror or error}", "cannot_start"
            ) from None
        self._workers.add(worker)
        return worker

    async def _give_back(self, worker: WorkerProcess) -> None:
        if worker.reusable and worker.is_alive and not self._closed:
            self._idle.append(worker)
        else:
            # Shielded: also a cancelled call waits until its process has ended.
            await asyncio.shield(self._end(worker))

    def _end(self, worker: WorkerProcess) -> asyncio.Task[None]:
        ending = worker.close()
        ending.add_done_callback(lambda _: self._workers.discard(worker))
        return ending


class DedicatedWorker:
    """Calls functions in files, one after the other, all in one process that belongs to one conversation.

    The process starts with the first call. After a timeout, crash or cancelled call, the next call starts a new
    process, which imports the modules again.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str],
        cwd: Path,
        code: CodeAllowed,
        redact: Redact,
        on_import: OnImport = lambda files: None,
        interpreter: Path | None = None,
        import_s: float = IMPORT_TIMEOUT_S,
    ) -> None:
        """Create the worker; no process is started before the first call.

        Args:
            folder: absolute path of the suite's folder, first on the module path.
            environ: the job's environment; the process gets it without the job's tokens.
            cwd: absolute path of the process's working folder, second on the module path.
            code: the permission to start the process.
            redact: removes secrets from the process's output and errors.
            on_import: called with the files of the checkout that the process has imported (see `WorkerProcess`).
            interpreter: absolute path of the process's Python, 3.9 or newer; None to use the Python of this process.
            import_s: time limit of one import, in seconds (`limits.import_timeout_s`).
        """
        self._import_s = import_s
        self._on_import = on_import
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
            return (await self._call_worker(request, self._import_s, MAX_RESULT_BYTES)).value

    async def call(
        self,
        file: str,
        function: str,
        args: Mapping[str, Any],
        timeout_s: float | None,
        *,
        max_bytes: int,
        on_start: Callable[[], object],
    ) -> Any:
        """Call a function.

        Args:
            file: path of the function's file, relative to the suite's folder.
            function: name of a callable in the file; sync or async.
            args: arguments by name, JSON values.
            timeout_s: time limit in seconds, without imports and the wait for earlier calls; None if there is no limit.
            max_bytes: maximum size of the result's text in bytes; a longer text is truncated.
            on_start: called when the function has been imported and is about to be called.

        Returns:
            `{value, bytes, cut}` (see `tool_functions.bounded_result`); user code may have forged it.

        Raises:
            UserCodeError: the call gave no usable result.
        """
        named = _function_request(file, function)
        async with self._turn:
            if (
                self._worker is None
                or not self._worker.is_alive
                or named["reference"] not in self._worker.imported_references
            ):
                await self._call_worker({"op": "prepare", **named}, self._import_s, MAX_RESULT_BYTES)
                if self._worker is not None:
                    self._worker.imported_references.add(named["reference"])
            on_start()
            return (await self._call_worker({"op": "tool", "args": args, **named}, timeout_s, max_bytes)).value

    async def close(self) -> None:
        """End the process and its descendants. A call in progress fails with code `closed`."""
        self._closed = True
        if self._worker is not None and self._turn.locked():
            self._worker.interrupt()
        async with self._turn:
            if self._worker is not None:
                await asyncio.shield(self._end(self._worker))

    async def _call_worker(self, request: Mapping[str, Any], timeout_s: float | None, max_bytes: int) -> Outcome:
        worker = await self._living_worker(request["reference"])
        try:
            return await worker.call(request, timeout_s, max_bytes)
        finally:
            if not (worker.reusable and worker.is_alive):
                # Shielded: also a cancelled call waits until its process has ended.
                await asyncio.shield(self._end(worker))

    async def _living_worker(self, reference: str) -> WorkerProcess:
        if self._worker is not None and not self._worker.is_alive:
            await asyncio.shield(self._end(self._worker))
        if self._closed:
            raise UserCodeError(f"{reference}: not called, because the conversation has ended", "closed")
        if self._worker is None:
            from holodeck_action.workers.worker_process import WorkerProcess

            try:
                self._worker = WorkerProcess(
                    *(self._folder, self._environ, self._cwd, USER_CODE),
                    on_import=self._on_import,
                    interpreter=self._interpreter,
                    code=self._code,
                    redact=self._redact,
                )
            except OSError as error:
                raise UserCodeError(
                    f"{reference}: its process cannot be started: {error.strerror or error}", "cannot_start"
                ) from None
        return self._worker

    def _end(self, worker: WorkerProcess) -> asyncio.Task[None]:
        self._worker = None
        return worker.close()


def _function_request(file: str, function: str) -> dict[str, str]:
    return {"reference": f"{file}:{function}", "file": file, "function": function}
