"""Errors of agents. Workers with memory limits raise them, so this module imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holodeck_action.suite.errors import Problem


class AgentError(Exception):
    """The agent could not answer: infrastructure trouble or a broken answer, never a low score.

    Attributes:
        message: one sentence with the problem and a remedy.
        code: stable snake_case code, such as `timeout`, `missing_transcript`, `bad_reply`, `too_large`, `crashed`.
        context: further data as JSON values (captured stderr, HTTP status, …).
    """

    def __init__(self, message: str, code: str, context: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.context = context or {}


class TargetError(ValueError):
    """The target cannot be used (a configuration error): a missing file or command, or an invalid pattern.

    `problems` are defects at lines of agent.yaml, such as in its tools; empty if no line is known.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
