"""What every adapter tells about its program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from holodeck_action.extensions.agent_programs.trajectory import Event, Trajectory
from holodeck_action.targets.protocol import ReplyFact


class Launch(Struct, frozen=True):
    """One start of a program.

    Attributes:
        model: the model, as the program names it; None for the program's own default.
        workspace: absolute path of the folder in which the agent works.
        home: absolute path of the trial's home folder.
        shared: absolute path of a folder that all trials of the run share.
        session: id of the session to continue; None for the first turn.
        options: further options of the program by name, without leading dashes.
        environ: the job's environment.
    """

    model: str | None
    workspace: Path
    home: Path
    shared: Path
    session: str | None
    options: Mapping[str, str | bool | None]
    environ: Mapping[str, str]


class Adapter(ABC):
    """How a program is started, and how its stream is read.

    Attributes:
        name: the value of `agent` in a target.
        program: name of the program on the PATH.
        passes: variables of the job that the program gets: the key of its provider and its address.
        way: how to install the program.
        shell: name of the tool that runs commands; empty if it is not known.
        tells_version: whether `--version` prints the version, which the stream does not have.
        totals_tokens: whether the tokens are those of the session so far.
        needs: other programs that must be on the PATH.
        files: absolute paths of further files that it reads.
        skill_tools: names of the tools with which the model uses a skill, in lower case.
        scripted_model: the model of the self-check, as the program names it.
    """

    name: ClassVar[str]
    program: str
    passes: ClassVar[tuple[str, ...]]
    way: ClassVar[str]
    shell: ClassVar[str] = ""
    tells_version: ClassVar[bool] = False
    totals_tokens: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ()
    files: Sequence[str] = ()
    skill_tools: ClassVar[tuple[str, ...]] = ()
    scripted_model: ClassVar[str] = "scripted"

    @abstractmethod
    def arguments(self, launch: Launch) -> Sequence[str]:
        """Return the arguments after the program's name; the prompt is its standard input."""

    @abstractmethod
    def environ(self, launch: Launch) -> Mapping[str, str]:
        """Return variables in addition to PATH, HOME, TMPDIR and those of `passes`."""

    @abstractmethod
    def scripted(self, address: str, key: str) -> Mapping[str, str]:
        """Return the variables with which the program calls a server at `address`, with `key`, as its provider."""

    def unreported(self, environ: Mapping[str, str] | None) -> Mapping[ReplyFact, str]:
        """Return the facts that no turn has, each with the reason.

        Args:
            environ: the program's environment; None if turns are replayed.
        """
        return {"first token": "the stream does not say when the answer began"}

    def session_file(self, home: Path, session: str) -> Path | None:
        """Return the file in the trial's home whose lines are read before the stream; None if the stream tells all."""
        return None

    @abstractmethod
    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that a stream tells; the stream may have ended anywhere."""


def written_options(options: Mapping[str, str | bool | None]) -> list[str]:
    """Return options as arguments; a value that is true or absent makes an option without a value, false leaves it
    out."""
    arguments: list[str] = []
    for name, value in options.items():
        if value is not False:
            arguments += [f"--{name}"] if value is True or value is None else [f"--{name}", str(value)]
    return arguments
