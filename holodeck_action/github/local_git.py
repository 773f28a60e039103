"""The checkout's own Git, asked with options under which it runs and fetches nothing that the repository names."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

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
        None where there is no Git, or it ended with an error or not in time.
    """
    known = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
    try:
        done = subprocess.run(
            ("git", *_OPTIONS, *arguments),  # noqa: S607 - whichever the machine has
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
