"""The exit codes of the program, and which of several counts (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """How a run, or the program, ended."""

    PASSED = 0
    """Every gate passed."""
    VIOLATED = 1
    """A gate is violated."""
    CONFIGURATION = 2
    """Configuration or usage error: nothing was run."""
    INCOMPLETE = 3
    """The agent, an evaluation or the program itself could not be run to its end."""
    STOPPED = 4
    """Deadline, budget or signal: what there is was written."""
    UNPUBLISHED = 5
    """It passed, and something that had to be published is not."""


TOLERABLE = frozenset((ExitCode.VIOLATED, ExitCode.INCOMPLETE, ExitCode.STOPPED))
"""What `fail-on: never` does not let fail: verdicts, but no configuration errors."""

OUTCOMES: Mapping[int, str] = {
    ExitCode.PASSED: "passed",
    ExitCode.VIOLATED: "failed",
    ExitCode.CONFIGURATION: "invalid",
    ExitCode.INCOMPLETE: "incomplete",
    ExitCode.STOPPED: "stopped",
}
"""The exit code of a run in one word."""

_ORDER = (
    ExitCode.CONFIGURATION,
    ExitCode.VIOLATED,
    ExitCode.STOPPED,
    ExitCode.INCOMPLETE,
    ExitCode.UNPUBLISHED,
    ExitCode.PASSED,
)
"""What counts when several apply comes first: a violation stays one, however much is missing."""


def severity(code: int) -> int:
    """Return how much a code counts beside others, 0 for the least; what is no code of ours counts most."""
    return len(_ORDER) - 1 - _ORDER.index(ExitCode(code)) if code in _ORDER else len(_ORDER)


def worst_exit_code(codes: Iterable[int]) -> ExitCode:
    """Return the one of several exit codes that counts; `PASSED` for none."""
    return ExitCode(max(codes, key=severity, default=ExitCode.PASSED))
