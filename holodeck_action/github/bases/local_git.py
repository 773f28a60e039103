"""Runs Git in the checkout, or beside it on the checkout's objects, with hooks, configured programs and fetches
disabled."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct

from holodeck_action.record.disk import UNSYNCED_DISK, write_new
from holodeck_action.workers.bounded_programs import ProgramError, run_program
from holodeck_action.workers.permission import NO_CODE
from holodeck_action.workers.programs import program_outside

TIMEOUT_S = 60.0
_MOST_OUTPUT = 256_000_000
"""Maximum bytes of a command's output: the names of two million files."""
_SHA256_DIGITS = 64
_CONFIGURATION = {
    "core.hooksPath": os.devnull,
    # It may name other parents than the commits.
    "core.commitGraph": "false",
    "core.fsmonitor": "false",
    "core.sshCommand": "false",
    "protocol.allow": "never",
}
_OPTIONS = (
    "--no-pager",
    "--no-replace-objects",
    *(part for name, value in _CONFIGURATION.items() for part in ("-c", f"{name}={value}")),
)
_SETTINGS = {
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def run_git(
    folder: Path,
    environ: Mapping[str, str],
    *arguments: str,
    extra_variables: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> str | None:
    """Run a Git command in a folder; return its output without trailing line ends.

    Args:
        folder: a folder in the checkout.
        environ: environment variables; Git gets only PATH and HOME.
        arguments: the command; names of commits and branches must not look like options.
        extra_variables: further variables for Git, such as `GIT_DIR`.
        stdin: content of the standard input.

    Returns:
        The output; None if Git is not installed (a program inside the workflow's workspace is ignored), or if it
        failed, took too long, or printed too much.
    """
    known = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
    workspace = environ.get("GITHUB_WORKSPACE")
    git = program_outside("git", known.get("PATH", os.defpath), Path(workspace)) if workspace else "git"
    if git is None:
        return None
    command, variables = (git, *_OPTIONS, *arguments), {**known, **_SETTINGS, **(extra_variables or {})}
    try:
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            ended = run_program(
                command,
                variables,
                code=NO_CODE,
                timeout_s=TIMEOUT_S,
                max_bytes=_MOST_OUTPUT,
                folder=folder,
                input_file=file,
            )
    except (OSError, ProgramError):
        return None
    return ended.output.lossy_text().rstrip("\n") if ended.code == 0 else None


class SideRepository(Struct, frozen=True):
    """A bare repository that reads the objects of a checkout (Git alternates).

    No setting, hook, filter or index of the checkout applies, and the checkout does not change.
    """

    git: Path
    environ: Mapping[str, str]

    @classmethod
    def of(cls, git: Path, root: Path, commit: str, environ: Mapping[str, str]) -> Self | None:
        """Create the repository; None if Git cannot be run.

        Args:
            git: folder of the repository, which does not exist yet.
            root: the checkout.
            commit: hash of a commit of the checkout, whose length tells the algorithm.
            environ: environment variables; Git gets only PATH and HOME.
        """
        kind = "sha256" if len(commit) == _SHA256_DIGITS else "sha1"
        options = ("--quiet", "--bare", "--template=", f"--object-format={kind}")
        if run_git(git.parent, environ, "init", *options, str(git)) is None:
            return None
        borrowed = run_git(root, environ, "rev-parse", "--git-path", "objects")
        if borrowed is not None:
            place = git / "objects" / "info"
            place.mkdir(parents=True, exist_ok=True)
            write_new(place / "alternates", [os.fsencode(f"{root / borrowed}\n")], UNSYNCED_DISK)
        return cls(git, environ)

    def run(self, folder: Path, *arguments: str, stdin: bytes = b"") -> str | None:
        """Run a Git command with `folder` as the working tree; see `run_git`."""
        own = {
            "GIT_DIR": str(self.git),
            "GIT_WORK_TREE": str(folder),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        return run_git(folder, self.environ, *arguments, extra_variables=own, stdin=stdin)
