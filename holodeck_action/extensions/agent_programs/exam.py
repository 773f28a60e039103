"""The exam tree, in which a command runs: the fixture with the changes of the agent that count, and hidden files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holodeck_action.extensions.agent_programs.checks import path_matches
from holodeck_action.extensions.agent_programs.workspace import (
    MOST_BYTES,
    WorkspaceError,
    copy_file,
    copy_folder,
    walk,
)
from holodeck_action.record.disk import open_new
from holodeck_action.suite.checkout import Checkout
from holodeck_action.text.foreign import Foreign, read_file
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.processes import KillableProcess, OutputTail

_KEPT = 8_000
"""Bytes of the end of each output that the record keeps."""
_MOST_READ = 10**10
MOST_OUTPUT = 50_000_000
"""Maximum bytes of each file that a command in an exam tree writes, its output included."""
_SHELL = ("/bin/sh", "-c")


def make_tree(
    tree: Path,
    fixture: Path | None,
    workspace: Path,
    changed: Iterable[Mapping[str, Any]],
    only: Sequence[str] | None,
    *,
    any_links: bool,
) -> None:
    """Make a copy of the fixture with the changes of a workspace.

    Args:
        tree: the folder to make.
        fixture: the fixture; None if the workspace was empty.
        workspace: the workspace after the trial.
        changed: the changed files (see `workspace.changes`).
        only: patterns of the paths whose changes count; None if all do.
        any_links: whether links of the fixture may lead out of it.

    Raises:
        WorkspaceError: a file cannot be copied.
    """
    tree.mkdir(parents=True)
    if fixture is not None:
        copy_folder(fixture, tree, any_links=any_links)
    for entry in changed:
        name = entry["path"]
        if only is not None and not any(path_matches(name, pattern) for pattern in only):
            continue
        if entry["change"] == "deleted":
            (tree / name).unlink(missing_ok=True)
        else:
            copy_file(workspace, name, tree, MOST_BYTES, replace=True)


def add_hidden(tree: Path, hidden: str, checkout: Checkout) -> None:
    """Copy hidden files of the checkout into an exam tree: a folder or a file, to the same relative path.

    Raises:
        WorkspaceError: they cannot be read.
    """
    try:
        source = checkout.resolve(hidden)
    except OSError as error:
        raise WorkspaceError(f"{hidden} cannot be read: {error.strerror}") from None
    if not source.exists():
        raise WorkspaceError(f"{hidden} does not exist")
    for name in walk(source) if source.is_dir() else ("",):
        copy_file(checkout.folder, os.path.normpath(os.path.join(hidden, name)), tree, MOST_BYTES, replace=True)


def run_shell(
    command: str,
    timeout_s: float,
    tree: Path,
    outside: Path,
    environ: Mapping[str, str],
    code: CodeAllowed,
    *,
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
        most_bytes: maximum bytes of each file that it writes; None for no limit.

    Returns:
        `exit`, the exit code, None if the deadline passed; `stdout` and `stderr`, the end of each output.

    Raises:
        OSError: the shell cannot be started.
    """
    own = {"HOME": str(outside / "home"), "TMPDIR": str(outside / "tmp")}
    for place in own.values():
        os.makedirs(place)
    files = [outside / "stdout", outside / "stderr"]
    with open_new(files[0]) as stdout, open_new(files[1]) as stderr:
        # In blocks of 512 bytes.
        limit = "" if most_bytes is None else f"ulimit -f {most_bytes // 512} || exit 126\n"
        process = KillableProcess(
            [*_SHELL, f"{limit}{command}"],
            {**environ, **own},
            code=code,
            folder=tree,
            stdout=stdout.fileno(),
            stderr=stderr.fileno(),
        )
        exit_code = process.wait(timeout_s)
    out, err = (_tail(file).lossy_text() for file in files)
    return {"exit": exit_code, "stdout": out, "stderr": err}


def _tail(file: Path) -> Foreign:
    kept = OutputTail(_KEPT)
    kept.feed(read_file(file, _MOST_READ, follow_links=False).parse(bytes))
    return kept.content()
