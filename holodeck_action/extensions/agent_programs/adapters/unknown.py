"""A program whose stream is unknown: its output is its answer."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter, Launch, written_options
from holodeck_action.extensions.agent_programs.trajectory import COMPLETED, Ended, Event, Trajectory, text_at, value_at
from holodeck_action.targets.protocol import ReplyFact


class UnknownProgram(Adapter):
    """A program with no adapter. Its stream is one event: `{output, exit_code}`."""

    name = "command"
    passes = ()
    way = ""

    def __init__(self, command: str) -> None:
        """Take the program and its arguments, quoted as for a POSIX shell.

        Raises:
            ValueError: the command is empty or wrongly quoted.
        """
        self.program, *self._arguments = shlex.split(command)
        self.files = [each for each in self._arguments if os.path.isabs(each) and os.path.isfile(each)]

    def arguments(self, launch: Launch) -> Sequence[str]:
        """Return the arguments after the program's name."""
        return [*self._arguments, *written_options(launch.options)]

    def unreported(self, environ: Mapping[str, str] | None) -> Mapping[ReplyFact, str]:
        """Return all facts that a stream could have."""
        reason = "the stream of a program that is named by its command is unknown"
        return {"tools": reason, "tokens": reason, "cost": reason, "first token": reason}

    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that the output tells."""
        output, code = text_at(events[-1], "output") or "", value_at(events[-1], "exit_code")
        ended = COMPLETED if output.strip() else Ended("agent", "wrote no answer")
        return Trajectory(output.strip(), ended if code == 0 else Ended("agent", f"ended with exit code {code}"))
