"""Runs Git in the checkout, with hooks, configured programs and fetches disabled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from holodeck_action.workers.bounded_programs import ProgramError, run_program
from holodeck_action.workers.permission import NO_CODE
from holodeck_action.workers.programs import program_outside

TIMEOUT_S = 60.0
_MOST_OUTPUT = 256_000_000
"""Maximum bytes of a command's output: the names of two million files."""
_OPTIONS = (
    "--no-pager",
    "--no-replace-objects",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    # It may name other parents than the commits.
    "core.commitGraph=false",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.sshCommand=false",
    "-c",
    "protocol.allow=never",
)
_SETTINGS = {
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def run_git(
    folder: Path, environ: Mapping[str, str], *arguments: str, extra_variables: Mapping[str, str] | None = None
) -> str | None:
    """Run a Git command in a folder; return its output without trailing line ends.

    Args:
        folder: a folder in the checkout.
        environ: environment variables; Git gets only PATH and HOME.
        arguments: the command; names of commits and branches must not look like options.
        extra_variables: further variables for Git, such as `GIT_INDEX_FILE`.

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
        ended = run_program(
            command, variables, code=NO_CODE, timeout_s=TIMEOUT_S, max_bytes=_MOST_OUTPUT, folder=folder
        )
    except (OSError, ProgramError):
        return None
    return ended.output.lossy_text().rstrip("\n") if ended.code == 0 else None
