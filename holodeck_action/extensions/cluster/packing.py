"""Packs the files of a checkout for workers, and unpacks them there."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holodeck_action.github.bases.local_git import run_git

MOST_BYTES = 512_000_000
"""Largest total size of all files, in bytes."""
_EXCLUDED = frozenset((".git", ".hg", ".svn", ".holodeck", ".venv", "venv", "node_modules", "__pycache__"))
"""Names of folders that are never sent, at any depth."""


class PackingError(Exception):
    """The files cannot be sent; the message is one sentence with a remedy."""


def pack(root: Path, environ: Mapping[str, str], excluded_folders: Sequence[Path]) -> bytes:
    """Pack the files of a checkout: the files that Git does not ignore, or all files if it is not a repository.

    Excludes `.env` files, which contain secrets, and links that lead out of the checkout.

    Args:
        root: the checkout's folder, with links resolved.
        environ: environment variables for Git.
        excluded_folders: folders to exclude, such as the output folder, with links resolved.

    Raises:
        PackingError: the files are too large, or a file cannot be read.
    """
    packed = io.BytesIO()
    total = 0
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name in sorted(_file_names(root, environ)):
            path = root / name
            if not _should_send(path, root, excluded_folders):
                continue
            try:
                total += path.lstat().st_size
                if total > MOST_BYTES:
                    raise PackingError(
                        f"the files of the checkout have more than {MOST_BYTES:,} bytes, too many to send to the "
                        "workers of a cluster: let Git ignore files that the suite does not read, or run it in shards"
                    )
                archive.add(path, name, recursive=False)
            except OSError as error:
                raise PackingError(f"{name}: cannot be sent to the cluster: {error.strerror}") from error
    return packed.getvalue()


def packed_digest(packed: bytes) -> str:
    """Return the SHA-256 of packed files in hex."""
    return hashlib.sha256(packed).hexdigest()


def unpack(packed: bytes, target: Path, digest: str) -> None:
    """Unpack files into a new folder; nothing is written outside of it.

    Args:
        packed: the packed files, possibly received from another worker.
        target: the folder to create.
        digest: SHA-256 in hex of the files as the coordinator packed them.

    Raises:
        PackingError: the files are damaged, or differ from the coordinator's files.
        OSError: a file cannot be written.
    """
    if packed_digest(packed) != digest:
        raise PackingError("they differ from those that the coordinator sent")
    target.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            _extract(archive, target)
    except tarfile.TarError as error:
        raise PackingError(str(error)) from error


def _extract(archive: tarfile.TarFile, target: Path) -> None:
    # Python before 3.11.4 has no filters that keep files inside of the target.
    links = []
    for member in archive:
        path = Path(os.path.normpath(target / member.name))
        if not path.is_relative_to(target):
            raise PackingError(f"{member.name} is outside of the checkout")
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.issym():
            links.append((path, member.linkname))
            continue
        source = archive.extractfile(member)
        if source is None:
            raise PackingError(f"{member.name} is not a file")
        with source, path.open("xb") as file:
            shutil.copyfileobj(source, file)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
    # Last, so that no file is written through a link.
    for path, link in links:
        if os.path.isabs(link) or not Path(os.path.normpath(path.parent / link)).is_relative_to(target):
            raise PackingError(f"{path.name} is a link that leads out of the checkout")
        path.symlink_to(link)


def _file_names(root: Path, environ: Mapping[str, str]) -> Iterator[str]:
    listed = run_git(root, environ, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    if (root / ".git").exists() and listed is not None:
        yield from filter(None, listed.split("\0"))
        return
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _EXCLUDED]
        linked = [name for name in folders if Path(folder, name).is_symlink()]
        yield from (os.path.relpath(Path(folder, name), root) for name in (*files, *linked))


def _should_send(path: Path, root: Path, excluded_folders: Sequence[Path]) -> bool:
    if path.name == ".env" or path.name.startswith(".env."):
        return False
    if any(part in _EXCLUDED for part in path.relative_to(root).parts):
        return False
    if any(path.is_relative_to(folder) for folder in excluded_folders):
        return False
    if path.is_symlink():
        # An absolute link is broken on another machine.
        return not os.path.isabs(os.readlink(path)) and Path(os.path.realpath(path)).is_relative_to(root)
    return path.is_file()
