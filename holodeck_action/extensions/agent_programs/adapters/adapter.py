"""What every adapter tells about its program."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from msgspec import Struct

from holodeck_action.extensions.agent_programs.trajectory import Call, Event, Trajectory, first_line
from holodeck_action.targets.protocol import ReplyFact
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.lazy_patterns import lazy_pattern

OPENAI_SERVER = {"OPENAI_BASE_URL": "{address}/v1", "OPENAI_API_KEY": "{key}"}
"""The variables with which many programs call another provider (see `Adapter.server`)."""


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
        flags: its first arguments.
        session_flag: the option with the session to continue.
        folder_variable: the variable with its folder in the trial's home; empty if it needs none.
        switches: further variables with constant values.
        server: the variables with which it calls another provider; `{address}` and `{key}` in them are replaced.
        shell: name of the tool that runs commands; empty if it is not known.
        exit_words: matches the result of a failed command up to its exit code, which is the first group.
        tells_version: whether `--version` prints the version, which the stream does not have.
        totals: the amounts in the stream that are those of the session so far.
        needs: other programs that must be on the PATH.
        files: absolute paths of further files that it reads.
        skill_tools: names of the tools with which the model uses a skill, in lower case.
        scripted_model: the model of the self-check, as the program names it.
    """

    name: ClassVar[str]
    program: str
    passes: ClassVar[tuple[str, ...]]
    way: ClassVar[str]
    flags: ClassVar[tuple[str, ...]] = ()
    session_flag: ClassVar[str] = "--resume"
    folder_variable: ClassVar[str] = ""
    switches: ClassVar[Mapping[str, str]] = {}
    server: ClassVar[Mapping[str, str]] = {}
    shell: ClassVar[str] = ""
    exit_words: ClassVar[re.Pattern[str]] = lazy_pattern(r"(?!)")
    tells_version: ClassVar[bool] = False
    totals: ClassVar[tuple[Literal["tokens", "cost"], ...]] = ()
    needs: ClassVar[tuple[str, ...]] = ()
    files: Sequence[str] = ()
    skill_tools: ClassVar[tuple[str, ...]] = ()
    scripted_model: ClassVar[str] = "scripted"

    def arguments(self, launch: Launch) -> Sequence[str]:
        """Return the arguments after the program's name; the prompt is its standard input."""
        return [
            *self.flags,
            *(("--model", launch.model) if launch.model else ()),
            *((self.session_flag, launch.session) if launch.session else ()),
            *written_options(launch.options),
        ]

    def environ(self, launch: Launch) -> Mapping[str, str]:
        """Return variables in addition to PATH, HOME, TMPDIR and those of `passes`."""
        folder = {self.folder_variable: str(launch.home / f".{self.name}")} if self.folder_variable else {}
        return {**folder, **self.switches}

    def keys(self, model: str | None) -> Sequence[str]:
        """Return the variables of the job that the program gets, for a model.

        Raises:
            TargetError: the model does not say whose key it needs.
        """
        return self.passes

    def settings(self, launch: Launch) -> Mapping[str, Any]:
        """Return JSON files that are in the program's folder before the first turn, by name."""
        return {}

    def scripted(self, address: str, key: str) -> Mapping[str, str]:
        """Return the variables with which the program calls a server at `address`, with `key`, as its provider."""
        return {name: value.format(address=address, key=key) for name, value in self.server.items()}

    def unreported(self, environ: Mapping[str, str] | None) -> Mapping[ReplyFact, str]:
        """Return the facts that no turn has, each with the reason.

        Args:
            environ: the program's environment; None if turns are replayed.
        """
        return {"first token": "the stream does not say when the answer began"}

    def session_file(self, home: Path, session: str) -> Path | None:
        """Return the file in the trial's home whose lines are read before the stream; None if the stream tells all."""
        return None

    def session_lines(self, content: Foreign) -> Foreign:
        """Return the lines of that file to read, one JSON object each."""
        return content

    @abstractmethod
    def read(self, events: Sequence[Event]) -> Trajectory:
        """Return the turn that a stream tells; the stream may have ended anywhere."""

    def call(self, name: str, args: Mapping[str, Any], result: str, *, failed: bool) -> Call:
        """Return a call whose result is a text; the exit code of a command that failed is in it."""
        found = self.exit_words.match(result) if failed else None
        exit_code = int(found[1]) if found else 0 if name == self.shell and not failed else None
        return Call(name, args, result, first_line(result) if failed else None, exit_code)


def written_options(options: Mapping[str, str | bool | None]) -> list[str]:
    """Return options as arguments; a value that is true or absent makes an option without a value, false leaves it
    out."""
    arguments: list[str] = []
    for name, value in options.items():
        if value is not False:
            arguments += [f"--{name}"] if value is True or value is None else [f"--{name}", str(value)]
    return arguments
