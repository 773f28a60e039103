"""What is evaluated, read from the checkout itself: the same in a workflow and on a laptop."""

from __future__ import annotations

import re
from pathlib import Path

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def head_commit(folder: Path) -> str | None:
    """Return the checked-out commit's hash of the repository that holds `folder`; None outside a repository."""
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        if git.exists():
            try:
                found = _resolve(_git_folder(git))
            except (OSError, ValueError):
                return None
            return found if found is not None and _HASH.fullmatch(found) else None
    return None


def folder_in_repository(folder: Path) -> str | None:
    """Return a folder's path in the repository that holds it, with `/`, empty for its root; None outside of one."""
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            path = folder.relative_to(parent).as_posix()
            return "" if path == "." else path
    return None


def _git_folder(git: Path) -> Path:
    if git.is_dir():
        return git
    # A worktree's or submodule's .git is a file: "gitdir: PATH".
    return (git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()).resolve()


def _resolve(folder: Path) -> str | None:
    head = (folder / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head or None
    reference = head.removeprefix("ref:").strip()
    common = folder / "commondir"
    shared = (folder / common.read_text(encoding="utf-8").strip()).resolve() if common.exists() else folder
    for place in (folder, shared):
        if (place / reference).is_file():
            return (place / reference).read_text(encoding="utf-8").strip() or None
    packed = shared / "packed-refs"
    if packed.is_file():
        for line in packed.read_text(encoding="utf-8").splitlines():
            commit, _, name = line.partition(" ")
            if name == reference:
                return commit
    return None
