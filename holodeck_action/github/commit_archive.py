"""The files of a commit, downloaded into a folder: for a checkout that does not have the commit."""

from __future__ import annotations

import gzip
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from holodeck_action.github.api import Api


class ArchiveLimits(Struct, frozen=True):
    """How large the files of a commit may be: bytes packed and unpacked, and how many there may be."""

    packed: int = 500_000_000
    unpacked: int = 2_000_000_000
    files: int = 200_000


LIMITS = ArchiveLimits()


class ArchiveError(Exception):
    """A commit's files cannot be used; the message is one sentence."""


def download_commit(api: Api, sha: str, into: Path, limits: ArchiveLimits = LIMITS) -> None:
    """Write the files of a commit into a folder.

    They are those of `git archive`: what the attribute `export-ignore` names is not among them, and of files in Git LFS
    only the pointers are.

    Args:
        api: of the repository that has the commit.
        sha: its hash.
        into: a folder that exists and is empty.
        limits: on what is taken.

    Raises:
        ApiError: GitHub did not give them, or they are larger packed.
        ArchiveError: they are larger unpacked, too many, or of another commit, or a name leads out of the folder.
        OSError: they cannot be written.
    """
    with tempfile.TemporaryFile(dir=into.parent) as packed:
        api.download_commit(sha, limits.packed, packed)
        packed.seek(0)
        with gzip.GzipFile(fileobj=packed) as unpacked:
            try:
                _unpack(_Limited(unpacked, limits.unpacked), sha, into, limits)
            except ArchiveError:
                raise
            except Exception as error:
                # The disk may be full. Everything else is the archive's: its reader raises whatever a header leads to.
                if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
                    raise
                problem = type(error).__name__
                raise ArchiveError(f"the files of commit {sha[:12]} cannot be unpacked: {problem}") from None


def _unpack(unpacked: _Limited, sha: str, into: Path, limits: ArchiveLimits) -> None:
    with tarfile.open(fileobj=unpacked, mode="r|") as archive:  # type: ignore[call-overload]
        # `git archive` writes the commit into the header of the whole.
        if archive.pax_headers.get("comment", sha) != sha:
            raise ArchiveError(f"what GitHub gave for commit {sha[:12]} is another commit")
        archive.extractall(into, _members(archive, limits.files), filter=_inside)  # noqa: S202 - the filter keeps it inside


def _members(archive: tarfile.TarFile, most: int) -> Iterator[tarfile.TarInfo]:
    """Yield what is below the one folder that the archive begins with, as if it stood at the top."""
    for count, member in enumerate(archive, 1):
        if count > most:
            raise ArchiveError(f"the commit has more than {most:,} files")
        _, _, path = member.name.partition("/")
        if path:
            yield member.replace(name=path, deep=False)


def _inside(member: tarfile.TarInfo, into: str) -> tarfile.TarInfo | None:
    """Return a member as it is to be written; a link that leads out of the folder is left out."""
    try:
        return tarfile.data_filter(member, into)
    except (tarfile.LinkOutsideDestinationError, tarfile.AbsoluteLinkError):
        return None


class _Limited:
    """Reads at most so many bytes of what is unpacked."""

    def __init__(self, source: BinaryIO | gzip.GzipFile, most: int) -> None:
        self._source, self._left, self._most = source, most, most

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes."""
        data = self._source.read(min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveError(f"the files of the commit are larger than {self._most:,} bytes")
        return data
