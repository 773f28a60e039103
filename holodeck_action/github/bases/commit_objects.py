"""The Git objects of a commit that a checkout lacks, from GitHub, each held to its name.

They are what was committed. An archive of a commit is not: attributes of its files (`export-subst`, `export-ignore`)
change what it holds. Git itself writes the files from the objects, as it does in a checkout.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from msgspec import Struct

from holodeck_action.github.rest.api import Api
from holodeck_action.github.rest.stored_objects import TreeEntry
from holodeck_action.record.disk import UNSYNCED_DISK, write_new

_FOLDER, _MODULE = "040000", "160000"
_MODES = (_FOLDER, _MODULE, "100644", "100755", "120000")
_SHA256 = 64


class ObjectLimits(Struct, frozen=True):
    """How much of a commit is taken.

    Attributes:
        files: that the checkout lacks; each is a request, of 1,000 an hour that GitHub allows.
        size: bytes of those.
        written: bytes of all files of the commit.
    """

    files: int = 300
    size: int = 200_000_000
    written: int = 2_000_000_000


LIMITS = ObjectLimits()


class ObjectsError(Exception):
    """A commit's objects cannot be used; the message is one sentence."""


def fetch_objects(api: Api, commit: str, known: Set[str], store: Path, limits: ObjectLimits = LIMITS) -> str:
    """Write the tree of a commit, with everything in it, to a folder of Git objects; return the tree's name.

    Args:
        api: of the repository that has the commit.
        commit: its hash.
        known: names of objects that need not be had.
        store: the folder `objects` of a repository that has none of the others.
        limits: on what is taken.

    Raises:
        ApiError: GitHub did not give them.
        ObjectsError: they are too many or too large, or not what their names say.
        OSError: they cannot be written.
    """
    tree = api.tree_of(commit)
    entries = api.tree(tree)
    lacking = _lacking(entries, commit, known, limits)
    for name, content in _trees(entries, tree, commit):
        if name not in known:
            _keep(store, name, "tree", content)
    size = 0
    for name in lacking:
        content = api.blob(name)
        size += len(content)
        if size > limits.size:
            raise ObjectsError(_too_large(commit, limits.size))
        if _name("blob", content, name) != name:
            raise ObjectsError(f"what GitHub gave for a file of commit {commit[:12]} is another file")
        _keep(store, name, "blob", content)
    return tree


def _lacking(entries: Sequence[TreeEntry], commit: str, known: Set[str], limits: ObjectLimits) -> tuple[str, ...]:
    """Return the names of the files to ask for."""
    files = [entry for entry in entries if entry.mode not in (_FOLDER, _MODULE)]
    if sum(entry.size for entry in files) > limits.written:
        raise ObjectsError(f"the files of commit {commit[:12]} are larger than {limits.written:,} bytes")
    sizes = {entry.sha: entry.size for entry in files if entry.sha not in known}
    if len(sizes) > limits.files:
        raise ObjectsError(
            f"the checkout lacks {len(sizes):,} files of commit {commit[:12]}, of at most {limits.files:,}"
        )
    if sum(sizes.values()) > limits.size:
        raise ObjectsError(_too_large(commit, limits.size))
    return tuple(sizes)


def _too_large(commit: str, most: int) -> str:
    return f"the files of commit {commit[:12]} that the checkout lacks are larger than {most:,} bytes"


def _trees(entries: Sequence[TreeEntry], root: str, commit: str) -> Iterator[tuple[str, bytes]]:
    """Yield each folder as a Git object, with its name, which makes sure that nothing in the list is other than there.

    Raises:
        ObjectsError: something is.
    """
    inside: defaultdict[str, list[tuple[bytes, bytes]]] = defaultdict(list)
    folders = {"": root}
    for entry in entries:
        above, _, name = entry.path.rpartition("/")
        if entry.mode not in _MODES:
            raise ObjectsError(f"commit {commit[:12]} has what is no file, link, folder or submodule")
        written = name.encode(errors="replace")
        line = f"{entry.mode.lstrip('0')} ".encode() + written + b"\0" + bytes.fromhex(entry.sha)
        inside[above].append((written + b"/" if entry.mode == _FOLDER else written, line))
        if entry.mode == _FOLDER:
            folders[entry.path] = entry.sha
    for path, name in folders.items():
        content = b"".join(line for _, line in sorted(inside.pop(path, ())))
        if _name("tree", content, name) != name:
            raise ObjectsError(
                f"the list of files that GitHub gave for commit {commit[:12]} is not that of its tree, or a name in it "
                "is no UTF-8"
            )
        yield name, content
    if inside:
        raise ObjectsError(f"the list of files that GitHub gave for commit {commit[:12]} has files in no folder")


def _name(kind: str, content: bytes, like: str) -> str:
    data = f"{kind} {len(content)}\0".encode() + content
    return (hashlib.sha256(data) if len(like) == _SHA256 else hashlib.sha1(data, usedforsecurity=False)).hexdigest()


def _keep(store: Path, name: str, kind: str, content: bytes) -> None:
    path = store / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        write_new(path, [zlib.compress(f"{kind} {len(content)}\0".encode() + content, 1)], UNSYNCED_DISK)
