"""Downloads the Git objects of a commit that a checkout lacks, and checks each against its hash.

Objects contain exactly the committed content, unlike an archive of a commit, which file attributes (`export-subst`,
`export-ignore`) change. Git itself then writes the files from the objects, as in a checkout.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path

from msgspec import Struct

from holodeck_action.github.bases.branches import TreeEntry, blob, entries_of, tree_of
from holodeck_action.github.rest.api import Api
from holodeck_action.record.disk import UNSYNCED_DISK, write_new

_FOLDER, _SUBMODULE = "040000", "160000"
_MODES = (_FOLDER, _SUBMODULE, "100644", "100755", "120000")
_SHA256_DIGITS = 64


class ObjectLimits(Struct, frozen=True):
    """Limits of downloaded objects.

    Attributes:
        files: maximum number of missing files. Each file takes one request, and GitHub allows 1,000 requests per hour.
        size: maximum bytes of the missing files.
        written: maximum bytes of all files of the commit.
    """

    files: int = 300
    size: int = 200_000_000
    written: int = 2_000_000_000


LIMITS = ObjectLimits()


class ObjectsError(Exception):
    """A commit's objects cannot be used; the message is one sentence."""


def fetch_objects(api: Api, commit: str, known_hashes: Set[str], store: Path, limits: ObjectLimits = LIMITS) -> str:
    """Write the missing objects of a commit's tree to a folder of Git objects; return the hash of the tree.

    Args:
        api: API of the commit's repository.
        commit: hash of the commit.
        known_hashes: hashes of the objects that the checkout has.
        store: the folder `objects` of the checkout's repository.
        limits: limits of the download.

    Raises:
        ApiError: GitHub did not return the objects.
        ObjectsError: the objects are too many or too large, or do not match their hashes.
        OSError: an object cannot be written.
    """
    found = tree_of(api, commit)
    tree, entries = found.sha, entries_of(found)
    lacking = _missing_files(entries, commit, known_hashes, limits)
    for name, content in _tree_objects(entries, tree, commit):
        if name not in known_hashes:
            _write_object(store, name, "tree", content)
    size = 0
    for name in lacking:
        content = blob(api, name)
        size += len(content)
        if size > limits.size:
            raise ObjectsError(_too_large(commit, limits.size))
        if object_name("blob", (content,), name) != name:
            raise ObjectsError(f"GitHub returned another file instead of a file of commit {commit[:12]}")
        _write_object(store, name, "blob", content)
    return tree


def _missing_files(
    entries: Sequence[TreeEntry], commit: str, known_hashes: Set[str], limits: ObjectLimits
) -> tuple[str, ...]:
    """Return the hashes of the missing files. Raises: `ObjectsError` if they exceed a limit."""
    files = [entry for entry in entries if entry.mode not in (_FOLDER, _SUBMODULE)]
    if sum(entry.size for entry in files) > limits.written:
        raise ObjectsError(f"the files of commit {commit[:12]} are larger than {limits.written:,} bytes")
    sizes = {entry.sha: entry.size for entry in files if entry.sha not in known_hashes}
    if len(sizes) > limits.files:
        raise ObjectsError(
            f"the checkout lacks {len(sizes):,} files of commit {commit[:12]}, of at most {limits.files:,}"
        )
    if sum(sizes.values()) > limits.size:
        raise ObjectsError(_too_large(commit, limits.size))
    return tuple(sizes)


def _too_large(commit: str, max_bytes: int) -> str:
    return f"the files of commit {commit[:12]} that the checkout lacks are larger than {max_bytes:,} bytes"


def _tree_objects(entries: Sequence[TreeEntry], tree_hash: str, commit: str) -> Iterator[tuple[str, bytes]]:
    """Yield (hash, content) of each folder's tree object; matching hashes prove that `entries` is complete and correct.

    Raises:
        ObjectsError: an object does not match its hash.
    """
    inside: defaultdict[str, list[tuple[bytes, bytes]]] = defaultdict(list)
    folders = {"": tree_hash}
    for entry in entries:
        above, _, name = entry.path.rpartition("/")
        if entry.mode not in _MODES:
            raise ObjectsError(f"commit {commit[:12]} contains an entry that is not a file, link, folder or submodule")
        written = name.encode(errors="replace")
        line = f"{entry.mode.lstrip('0')} ".encode() + written + b"\0" + bytes.fromhex(entry.sha)
        inside[above].append((written + b"/" if entry.mode == _FOLDER else written, line))
        if entry.mode == _FOLDER:
            folders[entry.path] = entry.sha
    for path, name in folders.items():
        content = b"".join(line for _, line in sorted(inside.pop(path, ())))
        if object_name("tree", (content,), name) != name:
            raise ObjectsError(
                f"the list of files that GitHub gave for commit {commit[:12]} does not match its tree, or "
                "contains a name that is not UTF-8"
            )
        yield name, content
    if inside:
        raise ObjectsError(f"the list of files that GitHub gave for commit {commit[:12]} has files in no folder")


def object_name(kind: str, content: Iterable[bytes], sample: str) -> str:
    """Return the hash by which Git names an object.

    Args:
        kind: `blob` or `tree`.
        content: the pieces of the object, which can be iterated several times.
        sample: another hash of the repository, whose length tells the algorithm.
    """
    digest = hashlib.sha256() if len(sample) == _SHA256_DIGITS else hashlib.sha1(usedforsecurity=False)
    digest.update(f"{kind} {sum(map(len, content))}\0".encode())
    for piece in content:
        digest.update(piece)
    return digest.hexdigest()


def _write_object(store: Path, name: str, kind: str, content: bytes) -> None:
    path = store / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        write_new(path, [zlib.compress(f"{kind} {len(content)}\0".encode() + content, 1)], UNSYNCED_DISK)
