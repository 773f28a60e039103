"""Tools that are Python functions of the repository. They run in worker processes.

Each conversation has its own process, from the first call of a function to the end of the conversation. State that
functions keep in their modules lasts from turn to turn, and other conversations do not see it. The calls of a
conversation run one after the other, in the order of the model's requests. If the process is killed at a deadline or
crashes, a new one starts without the state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from holodeck_action.llm.messages import ToolDefinition
from holodeck_action.suite.errors import Problem, SourceMark, SuiteError, quoted
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.model.tools import FunctionTool as FunctionEntry
from holodeck_action.suite.model.tools import ToolModel
from holodeck_action.targets.own_model.toolbox import ToolError, Toolkit, ToolResult, parameters_schema, plain_result
from holodeck_action.text.plain import cut, make_storable
from holodeck_action.workers.code_errors import CallError, UserCodeError
from holodeck_action.workers.pool import WorkerPool

_ATTRIBUTE_CODES = ("missing_attribute", "not_callable")
_LONGEST_ERROR = 2000
"""Maximum characters of an error message for the model."""

_MODEL_MESSAGES = {
    "import_failed": "the tool cannot be loaded",
    "crashed": "the process of the tool ended before it finished",
    "exited": "the tool tried to end its process",
}
"""Messages for the model, by error code, in place of error messages with file locations."""

_MOST_BYTES = 2**53
"""Maximum size in bytes that a worker may report; JSON readers represent integers up to this number exactly."""


class FunctionTools(Toolkit):
    """The function tools of a suite; created by `load_functions`."""

    def __init__(
        self,
        entries: Sequence[tuple[FunctionEntry, dict[str, Any]]],
        *,
        clock: Callable[[], float],
        new_pool: Callable[[], WorkerPool],
    ) -> None:
        """Create the tools; no process is started yet.

        Args:
            entries: the tools of the suite, each with the JSON schema of its arguments.
            clock: returns monotonic seconds.
            new_pool: creates the process of a conversation, a pool of one worker.
        """
        self._clock = clock
        self._new_pool = new_pool
        self._pools: dict[str, WorkerPool] = {}
        self.tools = tuple(FunctionTool(entry, schema, self) for entry, schema in entries)

    async def open(self) -> Sequence[FunctionTool]:
        """Return the tools; no process is started yet."""
        return self.tools

    async def call(
        self, entry: FunctionEntry, args: Mapping[str, Any], session: str, *, max_bytes: int, timeout_s: float | None
    ) -> ToolResult:
        """Call a function in the process of the conversation `session` (see `Tool.call`)."""
        if session not in self._pools:
            self._pools[session] = self._new_pool()
        reference, place = _named(entry)
        begun: float | None = None
        try:
            async with await self._pools[session].lease() as lease:
                await lease.check(reference, place)
                begun = self._clock()
                given = {"args": args}
                outcome = await lease.call("tool", reference, given, timeout_s, max_bytes=max_bytes, place=place)
        except UserCodeError as error:
            duration = None if begun is None else (self._clock() - begun) * 1000.0
            raise ToolError(
                error.message, error.code, for_model=_model_message(error, reference), duration_ms=duration
            ) from None
        duration = (self._clock() - begun) * 1000.0
        result = _read_result(outcome.value, max_bytes, duration)
        if result is None:
            raise ToolError(f"{reference}: its process sent an invalid result", "bad_answer", duration_ms=duration)
        return result

    async def end(self, session: str) -> None:
        """Stop the process of a finished conversation."""
        pool = self._pools.pop(session, None)
        if pool is not None:
            await pool.close()

    async def close(self) -> None:
        """Stop all processes; calls in progress fail."""
        await asyncio.gather(*(self.end(session) for session in list(self._pools)))


class FunctionTool(Struct, frozen=True):
    """A Python function as a tool for the model."""

    entry: FunctionEntry
    schema: dict[str, Any]
    functions: FunctionTools

    @property
    def definition(self) -> ToolDefinition:
        """The tool as presented to the model."""
        return ToolDefinition(self.entry.name, self.entry.description, self.schema)

    @property
    def is_retrieval(self) -> bool:
        """Whether the results are retrieval context."""
        return self.entry.is_retrieval

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Call the function (see `Tool.call`)."""
        return await self.functions.call(self.entry, args, session, max_bytes=max_bytes, timeout_s=timeout_s)


async def load_functions(
    tools: Sequence[ToolModel],
    *,
    new_pool: Callable[[], WorkerPool],
    clock: Callable[[], float],
    marks: Mapping[str, SourceMark] | None = None,
) -> FunctionTools:
    """Import all functions in a worker process, and return the tools with the schemas of their arguments.

    Args:
        tools: all tools of the suite; kinds other than functions are skipped.
        new_pool: creates a pool of one worker.
        clock: returns monotonic seconds.
        marks: positions of the tools in the suite's files by their names, for messages.

    Raises:
        SuiteError: a function cannot be imported or called, or `parameters` is not a valid schema for it.
        UserCodeError: an import took longer than its limit.
    """
    entries: list[tuple[FunctionEntry, dict[str, Any]]] = []
    problems: list[Problem] = []
    async with new_pool() as pool:
        for index, entry in enumerate(tools):
            if not isinstance(entry, FunctionEntry):
                continue
            mark = (marks or {}).get(entry.name)
            try:
                reference, place = _named(entry)
                found = (await pool.call("describe", reference, {}, pool.import_s, place=place)).value
            except UserCodeError as error:
                if error.code == "import_timeout":
                    raise
                key = "function" if error.code in _ATTRIBUTE_CODES else "file"
                problems.append(Problem(mark, f"tools[{index}].{key}", error.message))
                continue
            try:
                entries.append((entry, _argument_schema(entry, found)))
            except ValueError as error:
                problems.append(Problem(mark, f"tools[{index}].parameters", str(error)))
    if problems:
        raise SuiteError(problems)
    return FunctionTools(entries, clock=clock, new_pool=new_pool)


def _named(entry: FunctionEntry) -> tuple[str, Mapping[str, str]]:
    """Return a function's name in messages, and its place (see `WorkerPool.call`)."""
    return f"{entry.file}:{entry.function}", {"file": entry.file, "function": entry.function}


def _argument_schema(entry: FunctionEntry, description: Any) -> dict[str, Any]:
    """Return the schema of a function's arguments, from `parameters` or else from its signature.

    Args:
        entry: the tool in the suite.
        description: the description of the function by its worker process (see `tool_functions.describe`).

    Raises:
        ValueError: the schema is invalid, or does not fit the function's signature.
    """
    match description:
        case {"schema": dict() as schema, "required": list() as required, "names": list() as names, "open": is_open}:
            pass
        case _:
            raise ValueError(f"the process of {entry.file}:{entry.function} sent an invalid description")
    if entry.parameters is not None:
        schema = parameters_schema(entry.parameters)
        given = schema.get("properties", {})
        unknown = [] if is_open is True else [name for name in given if name not in names]
        if unknown:
            takes = f"it takes {', '.join(map(str, names))}" if names else "it takes no arguments"
            raise ValueError(f"the function {entry.function} has no parameter {quoted(unknown[0])} ({takes})")
        missing = [name for name in required if name not in given]
        if missing:
            raise ValueError(
                f"the function {entry.function} needs {quoted(str(missing[0]))}, which `parameters` does not name; "
                "add it, or give the parameter a default"
            )
    stored: dict[str, Any] = make_storable(schema)
    JsonSchema(stored)
    return stored


def _read_result(answer: Any, max_bytes: int, duration_ms: float) -> ToolResult | None:
    """Return the result of a function in a worker's answer, which user code may have forged; None if it is invalid."""
    match answer:
        case {"value": value, "bytes": int() as size, "cut": bool() as cut} if 0 <= size <= _MOST_BYTES:
            try:
                plain = plain_result(value, max_bytes)
            except CallError:
                return None
            return ToolResult(plain, size, cut and isinstance(plain, str), duration_ms)
        case _:
            return None


def _model_message(error: UserCodeError, reference: str) -> str:
    """Return the error message for the model, without file locations, which differ between machines."""
    if error.code == "raised":
        return cut(f"{error.type}: {error.text}", _LONGEST_ERROR) if error.text else error.type
    return _MODEL_MESSAGES.get(error.code) or cut(error.message.removeprefix(f"{reference}: "), _LONGEST_ERROR)
