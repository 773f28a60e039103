"""A record written as Parquet tables, case by case."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holodeck_action.results.canonical import head_of
from holodeck_action.results.disk import DISK, Disk, share, write_new
from holodeck_action.results.parquet.manifest import LAYOUT, MANIFEST_FILE, Part, TableFile, file_names
from holodeck_action.results.parquet.process import MOST_BYTES, ProcessError, TableProcess
from holodeck_action.results.record import Record
from holodeck_action.results.sealing import Sealed, lines_of
from holodeck_action.results.serialization import to_json
from holodeck_action.results.stored_cases import case_lines

_GROUP_CASES, _GROUP_BYTES = 1000, 2 * 1024 * 1024
"""A row group ends with whichever comes first."""
_PART_CASES, _PART_BYTES = 10_000, 64 * 1024 * 1024
"""A part likewise."""


@contextmanager
def staged_parquet(path: Path, record: Record, record_digest: str, disk: Disk) -> Iterator[tuple[Path, str]]:
    """Write a record into a folder beside `path`; it is there while the context lasts, to be moved into place.

    Yields:
        The folder, and the digest of its manifest.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        sealed = Sealed(lambda: _manifest(record, temporary, disk), record_digest)
        write_new(temporary / MANIFEST_FILE, sealed, disk)
        share(temporary, 0o777)
        disk.sync_folder(temporary)
        yield temporary, sealed.digest
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_parquet(path: Path, record: Record, record_digest: str, disk: Disk = DISK) -> None:
    """Write a record as a folder of Parquet tables, replacing such a folder.

    Raises:
        OSError: it cannot be written, or something else stands there; nothing was replaced.
    """
    if os.path.lexists(path) and not (path / MANIFEST_FILE).is_file():
        raise FileExistsError(errno.EEXIST, "something else is there")
    with staged_parquet(path, record, record_digest, disk) as (new, _):
        disk.replace(new, path)


def _manifest(record: Record, folder: Path, disk: Disk) -> Iterator[bytes]:
    parts = _written_parts(record, folder, disk)
    return lines_of({**head_of(record), "layout": LAYOUT}, map(to_json, parts), "parts")


def _written_parts(record: Record, folder: Path, disk: Disk) -> Iterator[Part]:
    """Write all parts, and yield each once its files are on the disk.

    Raises:
        OSError: one cannot be written.
    """
    process: TableProcess | None = None
    number = size = cases = 0
    try:
        for group in _groups(case_lines(record.cases)):
            process = process or TableProcess()
            lines = b"\n".join(group)
            process.add(lines)
            size, cases = size + len(lines), cases + len(group)
            if size >= _PART_BYTES or cases >= _PART_CASES:
                yield _written(process, folder, number, size, disk)
                number, size, cases = number + 1, 0, 0
        if process is not None and cases:
            yield _written(process, folder, number, size, disk)
    except ProcessError as error:
        raise OSError(errno.EIO, str(error)) from error


def _groups(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        if len(line) > MOST_BYTES:
            raise OSError(errno.EFBIG, f"a case has more than {MOST_BYTES:,} bytes")
        if group and (size + len(line) > _GROUP_BYTES or len(group) >= _GROUP_CASES):
            yield group
            group, size = [], 0
        group.append(line)
        size += len(line)
    if group:
        yield group


def _written(process: TableProcess, folder: Path, number: int, size: int, disk: Disk) -> Part:
    rows, contents = process.finish()
    files = []
    for name, count, content in zip(file_names(number), rows, contents, strict=True):
        write_new(folder / name, [content], disk)
        files.append(TableFile(count, len(content), hashlib.sha256(content).hexdigest()))
    return Part(size, *files)
