"""The machine of a run: its programs and environment, and how they are started in the folder of a trial."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter, Launch
from holodeck_action.extensions.agent_programs.confinement import Confinement
from holodeck_action.extensions.agent_programs.program import ProgramRun
from holodeck_action.extensions.agent_programs.workspace import MOST_BYTES, WorkspaceError
from holodeck_action.record.disk import write_new
from holodeck_action.text.foreign import open_file
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.workers.bounded_programs import ProgramError, run_program
from holodeck_action.workers.permission import CodeAllowed

_GIT_S = 60.0
_VERSION_S = 60.0
_VERSION = lazy_pattern(r"(?<!\d)\d+(?:\.\d+)+(?:[-+][\w.-]*\w)?")
_NAMES = ("user.name=holodeck-action", "user.email=none@example.invalid", "commit.gpgsign=false")
_GIT = [part for setting in (*_NAMES, f"core.hooksPath={os.devnull}") for part in ("-c", setting)]
_CLEAN_GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}


class Machine(Struct, frozen=True):
    """The programs and the environment of a run.

    Attributes:
        program: absolute path of the agent's program.
        git: absolute path of Git; None if it is not installed.
        environ: the variables that the agent gets.
        code: the permission to start programs.
        confinement: how the agent's program and commands in exam trees are confined.
    """

    program: str
    git: str | None
    environ: Mapping[str, str]
    code: CodeAllowed
    confinement: Confinement = Confinement()

    @property
    def git_environ(self) -> dict[str, str]:
        """The environment of Git, without HOME."""
        return {**_CLEAN_GIT, "PATH": self.environ.get("PATH", os.defpath)}

    def make_folders(self, folder: Path, adapter: Adapter, launch: Launch) -> None:
        """Make the folders of a trial: the workspace, a home with the program's settings, one for temporary files."""
        own = launch.home / f".{adapter.name}"
        for place in (launch.workspace, own, folder / "tmp"):
            place.mkdir(parents=True)
        for name, value in adapter.settings(launch).items():
            write_new(own / name, [json.dumps(value).encode()])

    def commit_workspace(self, folder: Path, *, everything: bool) -> None:
        """Make the workspace of a trial a repository, which stops the search for instructions and skills in parents.

        Args:
            folder: the folder of the trial.
            everything: whether files that a .gitignore leaves out are in it, too.

        Raises:
            OSError: Git cannot be started.
            ProgramError: Git failed.
        """
        add = ("add", "-A", *(("-f",) if everything else ()))
        for words in (("init", "-q"), add, ("commit", "-q", "--allow-empty", "-m", "start")):
            if self.git is not None:
                self._run_git(self.git, folder, words)

    def _run_git(self, git: str, folder: Path, words: Sequence[str]) -> None:
        result = run_program(
            [git, *_GIT, *words],
            {**self.git_environ, "HOME": str(folder / "home")},
            code=self.code,
            timeout_s=_GIT_S,
            max_bytes=1_000_000,
            folder=folder / "workspace",
        )
        if result.code != 0:
            raise ProgramError(f"git {words[0]} ended with exit code {result.code}")

    def ignored(self, fixture: Path | None, names: Sequence[str], folder: Path) -> Container[str]:
        """Return those of some paths that the fixture's own .gitignore leaves out, which the agent cannot change.

        Raises:
            WorkspaceError: Git cannot tell.
        """
        if self.git is None or fixture is None or not names:
            return ()
        # A place that the agent could not know, because what is there decides what is left out.
        place = Path(tempfile.mkdtemp(prefix="ignoring-", dir=folder))
        bare, asked = str(place / "git"), place / "changed"
        write_new(asked, ["\0".join(names).encode("utf-8", "surrogateescape")])
        tells = ("--git-dir", bare, "--work-tree", str(fixture), "check-ignore", "--no-index", "-z", "--stdin")
        try:
            with open_file(asked, None) as file:
                for words, given in ((("init", "-q", "--bare", bare), None), (tells, file)):
                    told = run_program(
                        [self.git, *words],
                        self.git_environ,
                        code=self.code,
                        timeout_s=_GIT_S,
                        max_bytes=MOST_BYTES,
                        folder=fixture,
                        input_file=given,
                    )
        except (OSError, ProgramError) as error:
            raise WorkspaceError(f"has changes that Git cannot compare with .gitignore: {error}") from None
        if told.code not in (0, 1):
            raise WorkspaceError(f"has a .gitignore that Git cannot read (exit code {told.code})")
        return {*os.fsdecode(told.output.parse(bytes)).split("\0")}

    def version(self, folder: Path) -> str | None:
        """Return the version that the agent's program prints for `--version`, without keys; None if it prints none.

        Args:
            folder: absolute path of the folder that all trials share, where it may write.
        """
        place = str(folder)
        environ = {"PATH": self.environ.get("PATH", os.defpath), "HOME": place, "XDG_CACHE_HOME": place}
        self.confinement.give(folder)
        # Some print it to standard error.
        command = self.confinement.wrap(["/bin/sh", "-c", 'exec "$0" --version 2>&1', self.program], [folder])
        try:
            printed = run_program(
                command, environ, code=self.code, timeout_s=_VERSION_S, max_bytes=10_000, folder=folder
            )
        except (OSError, ProgramError):
            return None
        found = _VERSION.search(printed.output.lossy_text())
        return found[0] if found is not None and printed.code == 0 else None

    def start(self, adapter: Adapter, launch: Launch, folder: Path, prompt: str, max_bytes: int) -> ProgramRun:
        """Start the agent's program in the folder of a trial; `max_bytes` is the maximum of an answer.

        Raises:
            AgentError: it cannot be started.
        """
        own = {"HOME": str(launch.home), "TMPDIR": str(folder / "tmp")}
        environ = {**launch.environ, **adapter.environ(launch), **own}
        self.confinement.give(folder)
        self.confinement.give(launch.shared)
        writable = (launch.workspace, launch.home, folder / "tmp", launch.shared)
        arguments = self.confinement.wrap([self.program, *adapter.arguments(launch)], writable)
        return ProgramRun(arguments, environ, folder, prompt, max_bytes, self.code)
