"""The exam tree, in which a command runs: the fixture with the changes of the agent that count, and hidden files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holodeck_action.extensions.agent_programs.checks import path_matches
from holodeck_action.extensions.agent_programs.confinement import Confinement
from holodeck_action.extensions.agent_programs.program import read_end
from holodeck_action.extensions.agent_programs.workspace import (
    MOST_BYTES,
    copy_file,
    copy_folder,
    remove_empty,
)
from holodeck_action.record.disk import open_new
from holodeck_action.text.foreign import Redact, open_file
from holodeck_action.text.plain import MARGIN
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.processes import KillableProcess

_KEPT = 8_000
"""Bytes of the end of each output that the record keeps."""
MOST_WRITTEN = 1_000_000_000
"""Maximum bytes of each file that a command in an exam tree writes, its output included."""
_SHELL = ("/bin/sh", "-c")


def make_tree(
    tree: Path,
    fixture: Path | None,
    workspace: Path,
    changed: Sequence[Mapping[str, Any]],
    only: Sequence[Sequence[str]],
    hidden: str | None,
    *,
    any_links: bool,
) -> None:
    """Make a copy of the fixture with the changes of a workspace that count.

    Pipes, devices and sockets are left out, and so is a change that is possible only with one that does not count, such
    as a file in a folder that takes the place of a file.

    Args:
        tree: the folder to make.
        fixture: the fixture; None if the workspace was empty.
        workspace: the workspace after the trial.
        changed: the changed files (see `workspace.changes`).
        only: lists of patterns; a change counts if its path matches one of each list.
        hidden: the path of the hidden files, at which no change counts; None if there are none.
        any_links: whether links of the fixture may lead out of it.

    Raises:
        WorkspaceError: a file cannot be copied.
    """
    tree.mkdir(parents=True)
    if fixture is not None:
        copy_folder(fixture, tree, any_links=any_links)
    counting = [
        entry
        for entry in changed
        if all(any(path_matches(entry["path"], pattern) for pattern in patterns) for patterns in only)
        and not (hidden is not None and _overlap(entry["path"], hidden))
    ]
    for entry in counting:
        if entry["change"] == "deleted":
            (tree / entry["path"]).unlink(missing_ok=True)
            remove_empty((tree / entry["path"]).parent, tree)
    for entry in counting:
        if entry["change"] != "deleted" and entry["sha256"] and not _is_taken(tree, entry["path"]):
            copy_file(workspace, entry["path"], tree, MOST_BYTES, replace=True, any_links=True)


def _overlap(path: str, other: str) -> bool:
    """Return whether one of two paths is the other one or in it."""
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")


def _is_taken(tree: Path, name: str) -> bool:
    """Return whether a folder is at a place in a tree, or whether something else is in the place of its folder."""
    place = tree / name
    above = [folder for folder in place.parents if folder != tree and folder.is_relative_to(tree)]
    return (place.is_dir() and not place.is_symlink()) or any(
        folder.is_symlink() or (folder.exists() and not folder.is_dir()) for folder in above
    )


def run_shell(
    command: str,
    timeout_s: float,
    tree: Path,
    outside: Path,
    environ: Mapping[str, str],
    code: CodeAllowed,
    redact: Redact,
    *,
    confinement: Confinement | None = None,
    most_bytes: int | None = None,
) -> dict[str, Any]:
    """Run a shell command in a tree.

    Args:
        command: the command.
        timeout_s: its deadline in seconds.
        tree: the tree.
        outside: an empty folder for its output and its home.
        environ: the whole environment but HOME and TMPDIR.
        code: the permission to start it.
        redact: removes secrets from its output.
        confinement: how the command is confined, without the network; None if it is not.
        most_bytes: maximum bytes of each file that it writes; None for no limit.

    Returns:
        `exit`, the exit code, None if the deadline passed; `stdout` and `stderr`, the end of each output.

    Raises:
        OSError: the shell cannot be started.
    """
    own = {"HOME": str(outside / "home"), "TMPDIR": str(outside / "tmp")}
    for folder in own.values():
        os.makedirs(folder)
    files = [outside / "stdout", outside / "stderr"]
    with open_new(files[0]) as stdout, open_new(files[1]) as stderr:
        # In blocks of 512 bytes.
        limit = "" if most_bytes is None else f"ulimit -f {most_bytes // 512} || exit 126\n"
        arguments = [*_SHELL, f"{limit}{command}"]
        if confinement is not None:
            confinement.give(outside)
            arguments = confinement.wrap(arguments, (tree, *map(Path, own.values())), network=False)
        process = KillableProcess(
            arguments,
            {**environ, **own},
            code=code,
            folder=tree,
            stdout=stdout.fileno(),
            stderr=stderr.fileno(),
        )
        exit_code = process.wait(timeout_s)
    texts = []
    for place in files:
        with open_file(place, None, follow_links=False) as file:
            texts.append(read_end(file, _KEPT + MARGIN).without_secrets(redact))
    return {"exit": exit_code, "stdout": texts[0], "stderr": texts[1]}
