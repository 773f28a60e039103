"""The exit codes of the program, and their order of precedence (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """The result of a run or of the program."""

    PASSED = 0
    """Every gate passed."""
    VIOLATED = 1
    """A gate is violated."""
    CONFIGURATION = 2
    """Configuration or usage error: nothing was run."""
    INCOMPLETE = 3
    """The agent, an evaluation or the program itself could not be run to its end."""
    STOPPED = 4
    """A deadline, a budget or a signal stopped the run; the results so far were written."""
    UNPUBLISHED = 5
    """The run passed, but publishing its results failed."""


TOLERABLE = frozenset((ExitCode.VIOLATED, ExitCode.INCOMPLETE, ExitCode.STOPPED))
"""Exit codes that `fail-on: never` tolerates; a configuration error always fails."""

OUTCOMES: Mapping[int, str] = {
    ExitCode.PASSED: "passed",
    ExitCode.VIOLATED: "failed",
    ExitCode.CONFIGURATION: "invalid",
    ExitCode.INCOMPLETE: "incomplete",
    ExitCode.STOPPED: "stopped",
}
"""The outcome of a run in one word, by its exit code."""

_ORDER = (
    ExitCode.CONFIGURATION,
    ExitCode.VIOLATED,
    ExitCode.STOPPED,
    ExitCode.INCOMPLETE,
    ExitCode.UNPUBLISHED,
    ExitCode.PASSED,
)
"""The order of precedence if several exit codes apply."""


def severity(code: int) -> int:
    """Return the rank of an exit code in the order of precedence; 0 is the lowest. Unknown codes have the highest
    rank."""
    return len(_ORDER) - 1 - _ORDER.index(ExitCode(code)) if code in _ORDER else len(_ORDER)


def worst_exit_code(codes: Iterable[int]) -> ExitCode:
    """Return the exit code with the highest severity; `PASSED` if there are none."""
    return ExitCode(max(codes, key=severity, default=ExitCode.PASSED))
