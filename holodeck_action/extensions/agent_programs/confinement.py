"""Confinement of programs: bubblewrap where it works, else a user of their own where this program is root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from holodeck_action.workers.bounded_programs import ProgramError, run_program
from holodeck_action.workers.permission import CodeAllowed

Kind = Literal["bubblewrap", "own user", "no"]
_UID = 61_180
"""A number that no distribution gives to users; systemd's range for services begins after it."""
_LIMIT_S = 30.0
_HIDDEN = ("/tmp", "/run")  # noqa: S108 - nothing is written there
_OF_RUNNER = ("GITHUB_WORKSPACE", "RUNNER_TEMP")
_TRIES = ("/bin/sh", "-c", 'cd "$1" && : > written && test -r "$0" && test -x "$0"')


class Confinement(Struct, frozen=True):
    """How programs are confined.

    Attributes:
        kind: by what; `no` if they are not.
        wrapper: absolute path of the program that confines others; empty if there is none.
        hidden: folders that are empty for programs in bubblewrap.
        shown: files and folders in hidden folders that they may read.
    """

    kind: Kind = "no"
    wrapper: str = ""
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    def wrap(self, arguments: Sequence[str], writable: Sequence[Path], *, network: bool = True) -> list[str]:
        """Return the command that starts a program.

        Args:
            arguments: the program and its arguments.
            writable: the folders in which it may write; it works in the first one.
            network: whether it may use the network; only bubblewrap can withhold it.
        """
        match self.kind:
            case "bubblewrap":
                mounts = [("--ro-bind", "/", "/"), ("--dev", "/dev"), ("--proc", "/proc")]
                mounts += [("--tmpfs", folder) for folder in self.hidden]
                mounts += [("--ro-bind", path, path) for path in self.shown]
                mounts += [("--bind", str(folder), str(folder)) for folder in writable]
                words = [word for mount in mounts for word in mount] + ([] if network else ["--unshare-net"])
                limits = ("--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session")
                return [self.wrapper, *words, *limits, "--chdir", str(writable[0]), "--", *arguments]
            case "own user":
                ids = ("--reuid", str(_UID), "--regid", str(_UID), "--clear-groups", "--no-new-privs")
                return [self.wrapper, *ids, "--", *arguments]
        return [*arguments]

    def give(self, folder: Path) -> None:
        """Give a folder with all its files to the programs' own user, if they have one, who may reach it from above."""
        if self.kind != "own user":
            return
        folder.parent.chmod(0o711)
        for place, _, files in os.walk(folder):
            for path in (place, *(os.path.join(place, name) for name in files)):
                os.chown(path, _UID, _UID, follow_symlinks=False)


def choose_confinement(
    program: str, others: Sequence[str], checkout: Path, environ: Mapping[str, str], code: CodeAllowed
) -> Confinement:
    """Return the strongest confinement that works on this machine.

    Args:
        program: absolute path of the program to confine.
        others: further files that it needs, such as arguments.
        checkout: the folder of the repository, which it must not see.
        environ: the job's environment.
        code: the permission to start programs.
    """
    of_runner = (environ.get(name, "") for name in _OF_RUNNER)
    given = (tempfile.gettempdir(), *_HIDDEN, environ.get("HOME", ""), str(checkout), *of_runner)
    folders = {os.path.realpath(folder) for folder in given if os.path.isabs(folder) and os.path.isdir(folder)} - {"/"}
    hidden = tuple(sorted(folders))
    shown = tuple(sorted(_shown(hidden, [program, *others], environ.get("PATH", ""))))
    for kind, name in (("bubblewrap", "bwrap"), ("own user", "setpriv")):
        wrapper = shutil.which(name, path=environ.get("PATH"))
        if wrapper is None or (kind == "own user" and os.geteuid() != 0):
            continue
        found = Confinement("bubblewrap" if kind == "bubblewrap" else "own user", wrapper, hidden, shown)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "place")
            place.mkdir()
            tried = found.wrap([*_TRIES, program, str(place)], [place])
            try:
                # In a user namespace, root may not know the other user.
                found.give(place)
                ended = run_program(tried, {"PATH": os.defpath}, code=code, timeout_s=_LIMIT_S, max_bytes=10_000)
            except (ProgramError, OSError):
                continue
        if ended.code == 0:
            return found
    return Confinement()


def _shown(hidden: Sequence[str], files: Iterable[str], path: str) -> Iterator[str]:
    """Yield paths in hidden folders that a program needs: the folders of its installation, of node and of the PATH, and
    the addresses of name servers."""
    # Bubblewrap replaces /dev.
    hidden = (*hidden, "/dev")
    node = shutil.which("node", path=path)
    needed = [file for file in (*files, node) if file is not None]
    for file in (*needed, *map(os.path.realpath, needed)):
        yield from _if_hidden(_installation(file, hidden), hidden)
    tools = (os.path.join(folder, "") for folder in path.split(os.pathsep) if os.path.isabs(folder))
    for place in (*(_installation(tool, hidden) for tool in tools), os.path.realpath("/etc/resolv.conf")):
        yield from _if_hidden(place.rstrip("/"), hidden)


def _installation(file: str, hidden: Sequence[str]) -> str:
    """Return the folder of a program's files: the outermost node_modules, else the parent of `bin`; the file itself if
    that would show a hidden folder."""
    parts = file.split(os.sep)
    if "node_modules" in parts:
        return os.sep.join(parts[: parts.index("node_modules") + 1])
    folder = os.path.dirname(os.path.dirname(file))
    is_whole = os.path.basename(os.path.dirname(file)) == "bin" and not any(
        os.path.commonpath([folder, each]) == folder for each in hidden
    )
    return folder if is_whole else file


def _if_hidden(path: str, hidden: Sequence[str]) -> Iterator[str]:
    if os.path.exists(path) and path not in hidden and any(path.startswith(f"{folder}/") for folder in hidden):
        yield path
