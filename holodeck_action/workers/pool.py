"""Worker processes for user code: graders, Python targets, and the function tools of a conversation.

A worker performs one call at a time, and many calls in sequence. After a deadline, a cancelled call or a crash, the
worker and its descendants are killed, and the next call starts a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
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

IN_MODULE: Mapping[str, str] = MappingProxyType({})
"""The place of a callable that its reference names as `module.path:callable`."""

Operation = Literal["grade", "source", "ask", "describe", "extend", "tool", "rows"]


class Lease:
    """The right to use one worker of a pool for several calls; if the worker ends, the next call gets a new one."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._worker: WorkerProcess | None = None

    @property
    def finished_work(self) -> set[str]:
        """References of callables that the worker has imported. The holder of the lease may add names of other work
        that is done once per worker."""
        return set() if self._worker is None else self._worker.imported_references

    async def check(self, reference: str, place: Mapping[str, str] = IN_MODULE) -> None:
        """Import a callable in the worker; see `WorkerPool.check` and `WorkerPool.call`."""
        if self._worker is not None and not self._worker.is_alive:
            ended, self._worker = self._worker, None
            await self._pool.give_back(ended)
        if self._worker is None:
            self._worker = self._pool.take(reference)
        if reference not in self._worker.imported_references:
            worker = self._worker
            request = {"op": "check", "reference": reference, **place}
            await self._call_worker(request, self._pool.import_s, MAX_RESULT_BYTES)
            worker.imported_references.add(reference)

    async def call(
        self,
        op: Operation,
        reference: str,
        payload: Mapping[str, Any],
        timeout_s: float | None,
        *,
        max_bytes: int = MAX_RESULT_BYTES,
        answering: Answering | None = None,
        place: Mapping[str, str] = IN_MODULE,
    ) -> Outcome:
        """Call a callable of user code; see `WorkerPool.call`."""
        await self.check(reference, place)
        request = {"op": op, "reference": reference, **payload, **place}
        return await self._call_worker(request, timeout_s, max_bytes, answering)

    async def end(self) -> None:
        """Return the worker to the pool. Call this even after a failed or cancelled call."""
        worker, self._worker = self._worker, None
        try:
            if worker is not None:
                await self._pool.give_back(worker)
        finally:
            self._pool.slots.release()

    async def __aenter__(self) -> Lease:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

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
                await self._pool.give_back(worker)


class WorkerPool:
    """Calls functions of user code in at most `size` worker processes. An instance belongs to one event loop.

    The time limit of a call starts when a worker is free and has imported the callable's module.

    Attributes:
        import_s: time limit of one import, in seconds.
        slots: counts the leases.
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
        self.import_s = import_s
        self.slots = asyncio.Semaphore(size)
        self._idle: list[WorkerProcess] = []
        self._workers: set[WorkerProcess] = set()
        self._closed = False

    async def lease(self) -> Lease:
        """Wait until a worker is free, and return a lease for it."""
        await self.slots.acquire()
        return Lease(self)

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
        place: Mapping[str, str] = IN_MODULE,
    ) -> Outcome:
        """Call a callable of user code.

        Args:
            op: the operation. `grade` calls a grader; payload `{context}`, the fields of `GraderContext`; result: see
                `grading.grade`. `source` returns the digest of a grader's source files; no payload. `ask` calls a
                Python target; payload `{request}`; result: its reply. `describe` returns a function's description for
                the model (see `tool_functions.describe`); no payload. `extend` calls the function of an extension with
                the callable; payload `{by, payload}`: its name, `module:function`, and its argument. `tool` calls a
                function; payload `{args}`, arguments by name; result `{value, bytes, cut}`. `rows` calls a function
                that yields cases; payload `{args, rows}`, of which `rows` is the file to write as JSON Lines; result:
                the number of rows.
            reference: `module.path:callable`; the callable may be sync or async.
            payload: arguments of the operation as JSON values.
            timeout_s: time limit in seconds; None if there is no limit.
            max_bytes: maximum size of the result, and of each question, in bytes.
            answering: answers the questions of an `extend` call.
            place: `file` and `function` of a callable in a file, whose reference is only its name in messages;
                otherwise `IN_MODULE`.

        Raises:
            UserCodeError: the call gave no usable result.
        """
        async with await self.lease() as lease:
            return await lease.call(
                op, reference, payload, timeout_s, max_bytes=max_bytes, answering=answering, place=place
            )

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

    def take(self, reference: str) -> WorkerProcess:
        """Return an idle worker, or a new one, for a lease; `reference` begins the message if none can start."""
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

    async def give_back(self, worker: WorkerProcess) -> None:
        """Keep the worker of a lease for the next one if it is reusable; otherwise end it."""
        if worker.reusable and worker.is_alive and not self._closed:
            self._idle.append(worker)
        else:
            # Shielded: also a cancelled call waits until its process has ended.
            await asyncio.shield(self._end(worker))

    def _end(self, worker: WorkerProcess) -> asyncio.Task[None]:
        ending = worker.close()
        ending.add_done_callback(lambda _: self._workers.discard(worker))
        return ending
