"""The setup of a workspace, such as `npm ci`: made once for the same files and command, before the first trial."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from holodeck_action.extensions.agent_programs.environment import chosen
from holodeck_action.extensions.agent_programs.exam import run_shell
from holodeck_action.extensions.agent_programs.machine import Machine
from holodeck_action.extensions.agent_programs.workspace import WorkspaceError, copy_folder, tree_digest
from holodeck_action.text.foreign import Foreign, Redact

_LIMIT_S = 1800.0


def set_up(command: str, fixture: Path | None, machine: Machine, cache: Path | None, own: Path, redact: Redact) -> Path:
    """Return a folder with a copy of the fixture in which the command has run.

    Args:
        command: the command, for a POSIX shell; it gets no secrets.
        fixture: the workspace's folder; None for an empty one.
        machine: the machine.
        cache: the folder in which results are kept for later runs; None if there is none.
        own: the folder of this run, which is used without a cache.
        redact: removes secrets from the command's last words.

    Raises:
        OSError: a file cannot be read or written.
        WorkspaceError: the fixture cannot be copied, or the command failed.
    """
    content = "" if fixture is None else tree_digest(fixture)
    inputs = "\0".join((content, command, machine.environ.get("PATH", "")))
    folder = (cache or own) / "setups"
    key = hashlib.sha256(inputs.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    for kept in folder.glob(f"{key}-*"):
        if _is_unchanged(kept):
            return kept
        shutil.rmtree(kept, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        tree = place / "tree"
        tree.mkdir()
        if fixture is not None:
            copy_folder(fixture, tree)
        ended = run_shell(command, _LIMIT_S, tree, place, chosen(machine.environ), machine.code, redact)
        if ended["exit"] is None:
            raise WorkspaceError(f"cannot be set up: {command} took longer than {_LIMIT_S:g} s")
        if ended["exit"] != 0:
            words = Foreign.of_text(f"{ended['stdout']}\n{ended['stderr']}").last_line(redact)
            raise WorkspaceError(f"cannot be set up: {command} ended with exit code {ended['exit']}: {words}")
        kept = folder / f"{key}-{tree_digest(tree)}"
        if not kept.is_dir():
            os.rename(tree, kept)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return kept


def _is_unchanged(kept: Path) -> bool:
    """Return whether a kept result is as it was made; an agent that is not confined could have changed it."""
    try:
        return kept.name.endswith(tree_digest(kept))
    except OSError:
        return False
