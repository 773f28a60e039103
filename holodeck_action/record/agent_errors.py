"""Errors of agents; nothing heavy is imported here, as processes with limits raise them, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holodeck_action.suite.errors import Problem


class AgentError(Exception):
    """The agent could not answer: infrastructure trouble or a broken answer, never a low score.

    Attributes:
        message: one sentence a person can act on.
        code: stable snake_case code, such as `timeout`, `missing_transcript`, `bad_reply`, `too_large`, `crashed`.
        context: further facts as JSON values (captured stderr, HTTP status, …).
    """

    def __init__(self, message: str, code: str, context: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.context = context or {}


class TargetError(ValueError):
    """The target cannot be used at all (a configuration error): no file, no such command, a pattern that is none.

    `problems` are the lines of agent.yaml that are wrong, such as those of tools; empty where the target as a whole is.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
