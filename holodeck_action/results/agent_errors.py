"""Errors of agents; nothing heavy is imported here, as processes with limits raise them, too."""

from __future__ import annotations


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
    """The target cannot be used at all (a configuration error): no file, no such command, a pattern that is none."""
