"""Computations by texts of a suite, done in a process with limits, so that none of them can hold up the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.json_values import parse_json
from holodeck_action.workers.code_errors import SENT_WORDS, UserCodeError
from holodeck_action.workers.limited import limited_pool

SECONDS = 5.0
"""Longest time one computation may take."""
MOST_BYTES = 64_000_000
"""Most bytes of what one computation gives, as JSON."""

_MODULE = "holodeck_action.targets.templates.computations"
"""The functions that are called unless others are named."""
_PROCESSES = 2
"""One that is busy to its deadline leaves another for all other turns."""
_LONGEST_TROUBLE = 500
"""Characters of what a computation says of its trouble."""
_GRACE_S = 1.0
"""How much later the process is ended: first the computation is broken off, which tells where it was."""


class Computing:
    """Calls the functions of a module; used within one event loop."""

    def __init__(
        self, environ: Mapping[str, str], redact: Redact, seconds: float = SECONDS, module: str = _MODULE
    ) -> None:
        """Prepare; no process is started yet.

        Args:
            environ: the job's environment.
            redact: removes secrets from what a computation says of its trouble.
            seconds: longest time one computation may take.
            module: the one whose functions are called.
        """
        self._seconds = seconds
        self._redact = redact
        self._module = module
        self._pool = limited_pool(environ, size=_PROCESSES, redact=redact)

    async def start(self, function: str) -> None:
        """Start a process where none waits, so that its start is no part of a turn.

        Raises:
            AgentError: `cannot_start`.
        """
        try:
            await self._pool.check(f"{self._module}:{function}")
        except UserCodeError as error:
            raise AgentError(error.message, "cannot_start") from None

    async def call(self, function: str, args: Mapping[str, Any], *, what: str, code: str) -> Any:
        """Compute.

        Args:
            args: its arguments, JSON values; `seconds` is added.
            what: what computes, for messages, such as `target request`.
            code: code of an error that has no other.

        Raises:
            AgentError: it has no value, or took more time or memory than it may.
        """
        given = {"args": {**args, "seconds": self._seconds}}
        try:
            outcome = await self._pool.call(
                "tool", f"{self._module}:{function}", given, self._seconds + _GRACE_S, max_bytes=MOST_BYTES
            )
        except UserCodeError as error:
            if error.code == "timeout":
                raise AgentError(f"{what} took longer than {self._seconds:g} s; make it simpler", code) from None
            if error.type == "MemoryError":
                raise AgentError(f"{what} needs more memory than it may have; make it smaller", code) from None
            raise AgentError(f"{what}: {error.message.partition(': ')[2]}", code) from None
        if outcome.value["cut"]:
            raise AgentError(f"{what} gives more than {MOST_BYTES:,} bytes; make it smaller", code)
        found = parse_json(outcome.value["value"])
        if "error" in found:
            words = Foreign.of_text(found["error"], SENT_WORDS).words(self._redact, _LONGEST_TROUBLE)
            raise AgentError(words, found["code"] or code)
        return found["value"]

    async def close(self) -> None:
        """End the processes; calls under way fail."""
        await self._pool.close()
