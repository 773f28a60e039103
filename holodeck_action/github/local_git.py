"""The checkout's own Git, asked with options under which it runs and fetches nothing that the repository names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holodeck_action.workers.programs import program_outside

TIMEOUT_S = 60.0
_OPTIONS = (
    "--no-pager",
    "--no-replace-objects",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.sshCommand=false",
    "-c",
    "protocol.allow=never",
)
_SETTINGS = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def ask_git(
    folder: Path, environ: Mapping[str, str], *arguments: str, more: Mapping[str, str] | None = None
) -> str | None:
    """Run a command of Git in a folder; return what it prints, without the line's end.

    Args:
        folder: in the checkout.
        environ: of which Git sees where programs and its user's settings are.
        arguments: the command, whose names of commits and branches cannot be taken for options.
        more: variables of Git, such as `GIT_INDEX_FILE`.

    Returns:
        None where there is no Git (in a workflow: outside of the workspace), or it ended with an error or not in time.
    """
    known = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
    workspace = environ.get("GITHUB_WORKSPACE")
    git = program_outside("git", known.get("PATH", os.defpath), Path(workspace)) if workspace else "git"
    if git is None:
        return None
    try:
        done = subprocess.run(
            (git, *_OPTIONS, *arguments),
            cwd=folder,
            env={**known, **_SETTINGS, **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace").rstrip("\n") if done.returncode == 0 else None
