"""Tools that are a Python function of the repository, run in worker processes.

Every conversation has a process of its own from its first call of a function to its end: what functions keep in their
modules lasts from turn to turn, and no case sees what another has left behind. The calls of one conversation run one
after the other, in the order the model asked for them. A process that had to be ended (a deadline, a crash) is
replaced, and what it kept is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from holodeck_action.llm.messages import ToolDefinition
from holodeck_action.suite.errors import Problem, SourceMark, SuiteError, quoted
from holodeck_action.suite.model.tools import FunctionTool as FunctionEntry
from holodeck_action.suite.model.tools import ToolModel
from holodeck_action.targets.own_model.schemas import JsonSchema
from holodeck_action.targets.own_model.toolbox import ToolError, Toolkit, ToolResult, parameters_schema, plain_result
from holodeck_action.text.foreign import Redact
from holodeck_action.text.plain import cut, storable
from holodeck_action.workers.code_errors import CallError, UserCodeError
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.pool import DedicatedWorker
from holodeck_action.workers.worker_process import Imported

_ATTRIBUTE_CODES = ("missing_attribute", "not_callable")
_LONGEST_ERROR = 2000
"""Characters of an error that the model reads."""

_PLAIN_WORDS = {
    "import_failed": "the tool cannot be loaded",
    "crashed": "the process of the tool ended before it had finished",
    "exited": "the tool tried to end its process",
}
"""What the model reads of errors that name places in files."""

_MOST_BYTES = 2**53
"""Largest size: the whole numbers that every JSON reader keeps exact."""


class FunctionTools(Toolkit):
    """The functions of a suite; made by `load_functions`."""

    def __init__(
        self,
        entries: Sequence[tuple[FunctionEntry, dict[str, Any]]],
        *,
        clock: Callable[[], float],
        new_worker: Callable[[], DedicatedWorker],
    ) -> None:
        """Prepare the tools, each with the JSON schema of its arguments; a conversation's process starts later."""
        self._clock = clock
        self._new_worker = new_worker
        self._workers: dict[str, DedicatedWorker] = {}
        self.tools = tuple(FunctionTool(entry, schema, self) for entry, schema in entries)

    async def open(self) -> Sequence[FunctionTool]:
        """Return the tools: their processes start with the first call."""
        return self.tools

    async def call(
        self, entry: FunctionEntry, args: Mapping[str, Any], session: str, *, max_bytes: int, timeout_s: float | None
    ) -> ToolResult:
        """Call the function of an entry in the process of a conversation.

        Raises:
            ToolError: it gave no usable result.
        """
        if session not in self._workers:
            self._workers[session] = self._new_worker()
        reference = f"{entry.file}:{entry.function}"
        begun: list[float] = []
        try:
            value = await self._workers[session].call(
                entry.file,
                entry.function,
                args,
                timeout_s,
                max_bytes=max_bytes,
                begins=lambda: begun.append(self._clock()),
            )
        except UserCodeError as error:
            duration = (self._clock() - begun[0]) * 1000.0 if begun else None
            raise ToolError(
                error.message, error.code, for_model=_for_model(error, reference), duration_ms=duration
            ) from None
        duration = (self._clock() - begun[0]) * 1000.0
        result = _result(value, max_bytes, duration)
        if result is None:
            raise ToolError(f"{reference}: its process sent what no result can be", "bad_answer", duration_ms=duration)
        return result

    async def end(self, session: str) -> None:
        """End the process of a conversation that is over."""
        worker = self._workers.pop(session, None)
        if worker is not None:
            await worker.close()

    async def close(self) -> None:
        """End all processes; calls under way fail."""
        await asyncio.gather(*(self.end(session) for session in list(self._workers)))


class FunctionTool(Struct, frozen=True):
    """One function as a tool."""

    entry: FunctionEntry
    schema: dict[str, Any]
    functions: FunctionTools

    @property
    def definition(self) -> ToolDefinition:
        """How the model sees it."""
        return ToolDefinition(self.entry.name, self.entry.description, self.schema)

    @property
    def is_retrieval(self) -> bool:
        """Whether its results are retrieval context."""
        return self.entry.is_retrieval

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Call the function (see `Tool.call`)."""
        return await self.functions.call(self.entry, args, session, max_bytes=max_bytes, timeout_s=timeout_s)


async def load_functions(
    tools: Sequence[ToolModel],
    *,
    folder: Path,
    environ: Mapping[str, str],
    cwd: Path,
    code: CodeAllowed,
    redact: Redact,
    clock: Callable[[], float],
    marks: Mapping[str, SourceMark] | None = None,
    imported: Imported = lambda files: None,
    interpreter: Path | None = None,
) -> FunctionTools:
    """Import every function in a worker process and read the schemas of its arguments.

    Args:
        tools: all tools of the suite, in its order; those that are no functions are passed over.
        environ: the job's environment; the processes see it without the job's tokens.
        cwd: the processes' working folder, absolute.
        code: the permission to start them.
        redact: removes secrets from what functions print and raise.
        imported: told which files of the checkout they have imported.
        interpreter: the Python that the processes run; None for ours.

    Raises:
        SuiteError: functions that cannot be imported or called, and `parameters` that are no schema or do not fit.
    """
    entries: list[tuple[FunctionEntry, dict[str, Any]]] = []
    problems: list[Problem] = []
    new_worker = partial(
        DedicatedWorker,
        folder,
        environ=environ,
        cwd=cwd,
        code=code,
        redact=redact,
        imported=imported,
        interpreter=interpreter,
    )
    worker = new_worker()
    try:
        for index, entry in enumerate(tools):
            if not isinstance(entry, FunctionEntry):
                continue
            mark = (marks or {}).get(entry.name)
            try:
                found = await worker.describe(entry.file, entry.function)
            except UserCodeError as error:
                key = "function" if error.code in _ATTRIBUTE_CODES else "file"
                problems.append(Problem(mark, f"tools[{index}].{key}", error.message))
                continue
            try:
                entries.append((entry, _schema(entry, found)))
            except ValueError as error:
                problems.append(Problem(mark, f"tools[{index}].parameters", str(error)))
    finally:
        await worker.close()
    if problems:
        raise SuiteError(problems)
    return FunctionTools(entries, clock=clock, new_worker=new_worker)


def _schema(entry: FunctionEntry, found: Any) -> dict[str, Any]:
    """Return the schema of a function's arguments, from `parameters` or else from its signature.

    Raises:
        ValueError: it is no schema, or no call that fits it can succeed.
    """
    match found:
        case {"schema": dict() as schema, "required": list() as required, "names": list() as names, "open": is_open}:
            pass
        case _:
            raise ValueError(f"the process of {entry.file}:{entry.function} sent what no description can be")
    if entry.parameters is not None:
        schema = parameters_schema(entry.parameters)
        given = schema.get("properties", {})
        unknown = [] if is_open is True else [name for name in given if name not in names]
        if unknown:
            takes = f"it takes {', '.join(map(str, names))}" if names else "it takes none"
            raise ValueError(f"the function {entry.function} has no parameter {quoted(unknown[0])} ({takes})")
        missing = [name for name in required if name not in given]
        if missing:
            raise ValueError(
                f"the function {entry.function} needs {quoted(str(missing[0]))}, which `parameters` does not name; "
                "add it, or give the parameter a default"
            )
    stored: dict[str, Any] = storable(schema)
    JsonSchema(stored)
    return stored


def _result(answer: Any, max_bytes: int, duration_ms: float) -> ToolResult | None:
    """Read what a process says that a function gave; user code may have forged it. None when it is no result."""
    match answer:
        case {"value": value, "bytes": int() as size, "cut": bool() as cut} if 0 <= size <= _MOST_BYTES:
            try:
                plain = plain_result(value, max_bytes)
            except CallError:
                return None
            return ToolResult(plain, size, cut and isinstance(plain, str), duration_ms)
        case _:
            return None


def _for_model(error: UserCodeError, reference: str) -> str:
    """Say to the model what happened: no places in files, which change without the function changing."""
    if error.code == "raised":
        return cut(f"{error.type}: {error.text}", _LONGEST_ERROR) if error.text else error.type
    return _PLAIN_WORDS.get(error.code) or cut(error.message.removeprefix(f"{reference}: "), _LONGEST_ERROR)
