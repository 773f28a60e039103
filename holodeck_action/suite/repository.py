"""What is evaluated, read from the checkout itself: the same in a workflow and on a laptop."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCP = re.compile(r"[\w.-]+@[\w.-]+:")
"""How an address starts that is no URL, such as `git@github.com:owner/name.git`."""


def repository_root(folder: Path) -> Path | None:
    """Return the root of the repository that holds `folder`; None outside of one."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def head_commit(folder: Path) -> str | None:
    """Return the checked-out commit's hash of the repository that holds `folder`; None outside a repository."""
    root = repository_root(folder)
    if root is None:
        return None
    try:
        found = _resolve(_git_folder(root / ".git"))
    except (OSError, ValueError):
        return None
    return found if found is not None and _HASH.fullmatch(found) else None


def folder_in_repository(folder: Path) -> str | None:
    """Return a folder's path in the repository that holds it, with `/`, empty for its root; None outside of one."""
    root = repository_root(folder)
    if root is None:
        return None
    path = folder.relative_to(root).as_posix()
    return "" if path == "." else path


def origin(root: Path) -> str | None:
    """Return `owner/name` of the remote that a repository was cloned from; None where it has none on a server."""
    try:
        folder = _git_folder(root / ".git")
        text = (_common(folder) / "config").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    section = url = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line
        elif section == '[remote "origin"]' and line.partition("=")[0].strip() == "url":
            url = line.partition("=")[2].strip()
    scp = _SCP.match(url)
    path = url[scp.end() :] if scp else urlsplit(url).path if "://" in url and not url.startswith("file:") else ""
    names = path.rstrip("/").removesuffix(".git").split("/")[-2:]
    return "/".join(names) if len(names) == 2 and all(names) else None


def _git_folder(git: Path) -> Path:
    if git.is_dir():
        return git
    # A worktree's or submodule's .git is a file: "gitdir: PATH".
    return (git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()).resolve()


def _common(folder: Path) -> Path:
    """Return the folder that a worktree shares with its repository; of a repository its own."""
    common = folder / "commondir"
    return (folder / common.read_text(encoding="utf-8").strip()).resolve() if common.exists() else folder


def _resolve(folder: Path) -> str | None:
    head = (folder / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head or None
    reference = head.removeprefix("ref:").strip()
    shared = _common(folder)
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
