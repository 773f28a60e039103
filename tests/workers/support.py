"""User code on disk, and the pool that calls it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.permission import LOCAL_ORIGIN, CodeAllowed
from holodeck_action.workers.pool import WorkerPool
from holodeck_action.workers.worker_process import Outcome
from tests.turned_time import TurnedLoop

CONTEXT: Mapping[str, Any] = {
    "turn_input": "How many?",
    "agent_response": "42",
    "ground_truth": "42",
    "tool_invocations": [],
    "retrieval_context": None,
    "turn_index": 0,
    "test_case_name": "counting",
    "turn_config": {},
}


def write(folder: Path, source: str, module: str = "checks") -> None:
    """Write a module of user code."""
    file = folder.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(source), encoding="utf-8")


CODE = CodeAllowed(LOCAL_ORIGIN)
"""The permission of a person who runs the program."""

LONG = 1e6
"""Seconds of a deadline that only `pass_deadlines` ends."""


def pass_deadlines(seconds: float = 2 * LONG) -> None:
    """Put the clock of the loop that runs behind the deadlines of so many seconds that run by now."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TurnedLoop)
    loop.ahead += seconds


async def overdue(call: Awaitable[Any], begun: Callable[[], bool]) -> Any:
    """Return the result of a call whose deadline comes once it has begun for certain."""
    task = asyncio.ensure_future(call)
    assert await asyncio.to_thread(wait_until, begun)
    pass_deadlines()
    return await task


def run(
    folder: Path,
    work: Callable[[WorkerPool], Awaitable[Any]],
    *,
    size: int = 1,
    environ: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
) -> Any:
    """Do some work with a pool, on a clock that `pass_deadlines` puts forward."""

    async def opened() -> Any:
        async with WorkerPool(folder, environ=environ, cwd=cwd or folder, size=size, code=CODE, redact=str) as pool:
            return await work(pool)

    with asyncio.Runner(loop_factory=TurnedLoop) as runner:
        return runner.run(opened())


async def grade(pool: WorkerPool, name: str, timeout_s: float | None = LONG, **context: Any) -> Outcome | UserCodeError:
    """Call the grader `checks:NAME`, or another module's by its reference."""
    reference = name if ":" in name else f"checks:{name}"
    try:
        return await pool.call("grade", reference, {"context": {**CONTEXT, **context}}, timeout_s)
    except UserCodeError as error:
        return error


def graded(folder: Path, name: str, timeout_s: float | None = LONG, **context: Any) -> Outcome:
    """Grade once in a pool of its own; it must succeed."""
    outcome = run(folder, lambda pool: grade(pool, name, timeout_s, **context))
    assert isinstance(outcome, Outcome), outcome
    return outcome


def failed(folder: Path, name: str, timeout_s: float | None = LONG, **context: Any) -> UserCodeError:
    """Grade once, then once more to see that the pool is unharmed; the first must fail, the second succeed."""

    async def work(pool: WorkerPool) -> Outcome | UserCodeError:
        outcome = await grade(pool, name, timeout_s, **context)
        write(folder, "def fine(ctx):\n    return True\n", "other")
        assert await grade(pool, "other:fine") == Outcome({"kind": "bare", "score": True}, "")
        return outcome

    error = run(folder, work)
    assert isinstance(error, UserCodeError), error
    return error


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Tell whether a condition comes true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def running(pid: int) -> bool:
    """Tell whether a process runs; one that ended and waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
