"""Evaluates a suite's templates and JSONPaths in processes with time and memory limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.json_values import parse_json
from holodeck_action.workers.code_errors import MAX_SENT_CHARS, UserCodeError
from holodeck_action.workers.limited_workers import limited_worker_pool

TIME_LIMIT_S = 5.0
"""Maximum seconds of one computation."""
MOST_BYTES = 64_000_000
"""Maximum bytes of a result as JSON."""

_MODULE = "holodeck_action.targets.templates.computations"
"""Default name of the module whose functions are called."""
_PROCESSES = 2
"""Number of processes. While a slow computation occupies one until its deadline, the other serves all other turns."""
_MAX_ERROR_CHARS = 500
"""Maximum characters of an error message."""
_GRACE_S = 1.0
"""Seconds after its time limit at which a computation that did not stop itself is killed."""


class ComputationPool:
    """Calls functions of a module in worker processes with limits. An instance belongs to one event loop."""

    def __init__(
        self, environ: Mapping[str, str], redact: Redact, seconds: float = TIME_LIMIT_S, module: str = _MODULE
    ) -> None:
        """Create the instance; no process is started yet.

        Args:
            environ: the job's environment.
            redact: removes secrets from error messages.
            seconds: maximum seconds of one computation.
            module: name of the module with the functions, which return JSON like the functions of `computations`.
        """
        self._seconds = seconds
        self._redact = redact
        self._module = module
        self._pool = limited_worker_pool(environ, size=_PROCESSES, redact=redact)

    async def start(self, function: str) -> None:
        """Import a function in a process, so that a later call need not wait for the start of the process.

        Raises:
            AgentError: no process can be started (`cannot_start`).
        """
        try:
            await self._pool.check(f"{self._module}:{function}")
        except UserCodeError as error:
            raise AgentError(error.message, "cannot_start") from None

    async def call(self, function: str, args: Mapping[str, Any], *, label: str, code: str) -> Any:
        """Call a function and return the `value` of its result.

        Args:
            function: name of the function.
            args: arguments of the function, JSON values; `seconds` is added.
            label: name of the computation in messages, such as `target request`.
            code: code of the error if the function reports no code.

        Raises:
            AgentError: the function failed, or needed too much time or memory.
        """
        given = {"args": {**args, "seconds": self._seconds}}
        try:
            outcome = await self._pool.call(
                "tool", f"{self._module}:{function}", given, self._seconds + _GRACE_S, max_bytes=MOST_BYTES
            )
        except UserCodeError as error:
            if error.code == "timeout":
                raise AgentError(f"{label} took longer than {self._seconds:g} s; make it simpler", code) from None
            if error.type == "MemoryError":
                raise AgentError(f"{label} needs more memory than is allowed; make it smaller", code) from None
            raise AgentError(f"{label}: {error.message.partition(': ')[2]}", code) from None
        if outcome.value["cut"]:
            raise AgentError(f"{label} produces more than {MOST_BYTES:,} bytes; make it smaller", code)
        found = parse_json(outcome.value["value"])
        if "error" in found:
            words = Foreign.of_text(found["error"], MAX_SENT_CHARS).short_line(self._redact, _MAX_ERROR_CHARS)
            raise AgentError(words, found["code"] or code)
        return found["value"]

    async def close(self) -> None:
        """Stop the processes; calls in progress fail."""
        await self._pool.close()
