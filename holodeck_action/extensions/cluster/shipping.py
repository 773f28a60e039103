"""The files of a checkout as workers get them: packed here, unpacked there."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holodeck_action.github.bases.local_git import ask_git

MOST_BYTES = 512_000_000
"""Bytes of all files together."""
_LEFT_OUT = frozenset((".git", ".hg", ".svn", ".holodeck", ".venv", "venv", "node_modules", "__pycache__"))
"""Folders of which nothing is sent, wherever they are."""


class ShippingError(Exception):
    """The files cannot be sent; the message is one sentence with the way out."""


def pack(root: Path, environ: Mapping[str, str], leave_out: Sequence[Path]) -> bytes:
    """Pack the files of a checkout: those that Git does not ignore, or all where Git knows nothing of it.

    Left out are `.env` files, which hold secrets, and links that lead elsewhere.

    Args:
        root: the checkout's folder, links resolved.
        environ: of which Git sees where programs are.
        leave_out: resolved folders of which nothing is sent, such as those of results.

    Raises:
        ShippingError: they are too large, or one cannot be read.
    """
    packed = io.BytesIO()
    total = 0
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name in sorted(_names(root, environ)):
            path = root / name
            if not _sent(path, root, leave_out):
                continue
            try:
                total += path.lstat().st_size
                if total > MOST_BYTES:
                    raise ShippingError(
                        f"the files of the checkout have more than {MOST_BYTES:,} bytes, too much to send to "
                        "the workers of a cluster: let Git ignore what the suite does not read, or run it in "
                        "shards"
                    )
                archive.add(path, name, recursive=False)
            except OSError as error:
                raise ShippingError(f"{name}: cannot be sent to the cluster: {error.strerror}") from error
    return packed.getvalue()


def digest_of(packed: bytes) -> str:
    """Return what tells packed files apart: SHA-256, hex."""
    return hashlib.sha256(packed).hexdigest()


def unpack(packed: bytes, into: Path, digest: str) -> None:
    """Write what was packed to a new folder; nothing is written outside of it.

    Args:
        packed: as it came, maybe from another worker.
        into: the folder.
        digest: that the coordinator told.

    Raises:
        ShippingError: it is broken, or not what the coordinator packed.
        OSError: it cannot be written.
    """
    if digest_of(packed) != digest:
        raise ShippingError("they are not those that the coordinator has sent")
    into.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            archive.extractall(into, filter="data")
    except tarfile.TarError as error:
        raise ShippingError(str(error)) from error


def _names(root: Path, environ: Mapping[str, str]) -> Iterator[str]:
    listed = ask_git(root, environ, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    if (root / ".git").exists() and listed is not None:
        yield from filter(None, listed.split("\0"))
        return
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        linked = [name for name in folders if Path(folder, name).is_symlink()]
        yield from (os.path.relpath(Path(folder, name), root) for name in (*files, *linked))


def _sent(path: Path, root: Path, leave_out: Sequence[Path]) -> bool:
    if path.name == ".env" or path.name.startswith(".env."):
        return False
    if any(part in _LEFT_OUT for part in path.relative_to(root).parts):
        return False
    if any(path.is_relative_to(folder) for folder in leave_out):
        return False
    if path.is_symlink():
        # An absolute link would lead nowhere on another machine.
        return not os.path.isabs(os.readlink(path)) and Path(os.path.realpath(path)).is_relative_to(root)
    return path.is_file()
