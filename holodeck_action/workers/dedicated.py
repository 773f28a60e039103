"""A worker process of one's own: user code that may keep state between calls, shared with nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.errors import UserCodeError
from holodeck_action.workers.pool import IMPORT_TIMEOUT_S, MAX_RESULT_BYTES
from holodeck_action.workers.process import Imported, Outcome, WorkerProcess


class DedicatedWorker:
    """Performs calls of functions in files, one after the other in the order they came, all in one process.

    The process starts with the first call. One that had to be ended (a deadline, a crash, a cancelled call) is replaced
    when the next call needs it, which then meets freshly imported modules.
    """

    def __init__(
        self, folder: Path, *, environ: Mapping[str, str], cwd: Path, imported: Imported = lambda files: None
    ) -> None:
        """Prepare the worker; no process is started before the first call.

        Args:
            folder: the suite's folder, absolute, first on the module path.
            environ: the job's environment; the process sees it without the job's tokens.
            cwd: its working folder, absolute, second on the module path.
            imported: told which files of the checkout it has imported (see `WorkerProcess`).
        """
        self._imported = imported
        self._folder = folder
        self._environ = job_environment(environ)
        self._cwd = cwd
        self._turn = asyncio.Lock()
        self._worker: WorkerProcess | None = None
        self._closed = False

    async def describe(self, file: str, function: str) -> Any:
        """Import a function and return its description (see `usercode.signatures.described`).

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
            `{value, bytes, cut}` (see `usercode.tooling.result`), as the process says: user code may have forged it.

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
                self._worker = WorkerProcess(self._folder, self._environ, self._cwd, imported=self._imported)
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
