"""Writes the results of a run to a folder: record, verdict and related files, each replaced atomically."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.verdict import CombinedVerdict, Verdict
from holodeck_action.decide.verdict_file import verdict_head, written_case
from holodeck_action.record.disk import DISK, Disk, stage_file, write_atomically
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import (
    BASE_FOLDER,
    EARLIER_FILE,
    RESULTS_FILE,
    VERDICT_FILE,
    BaseResults,
    sealed_record,
)
from holodeck_action.record.sealing import END, lines_of
from holodeck_action.record.serialization import to_json


class RelatedFiles(Struct, frozen=True):
    """Further files of a run's results.

    Attributes:
        base: the base's results; None if there is no base.
        earlier: the lines of `earlier-runs.jsonl`.
    """

    base: BaseResults | None = None
    earlier: Sequence[bytes] = ()


NO_RELATED_FILES = RelatedFiles()


def write_results(
    folder: Path, record: Record, verdict: Verdict, disk: Disk = DISK, related_files: RelatedFiles = NO_RELATED_FILES
) -> Path:
    """Write a record, its verdict and related files to a folder; the verdict contains the digest of the record's file.

    The verdict is moved to its path last, so that a new verdict always has its results.

    Args:
        folder: the folder.
        record: the record of a run.
        verdict: the verdict on the record.
        disk: the disk operations.
        related_files: the related files.

    Returns:
        The path of the record.

    Raises:
        OSError: a file cannot be written; other files may have been replaced, but not the verdict.
    """
    base, earlier = related_files.base, related_files.earlier
    if base is not None:
        below = folder / BASE_FOLDER
        below.mkdir(exist_ok=True)
        if below.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, "a symbolic link is in the way", str(below))
        write_atomically(below / RESULTS_FILE, [base.content], disk=disk)
    results, judged = folder / RESULTS_FILE, folder / VERDICT_FILE
    sealed = sealed_record(record, verdict.record_digest)
    with ExitStack() as stack:
        new: list[tuple[Path, Path]] = []

        def stage(path: Path, chunks: Iterable[bytes]) -> None:
            new.append((stack.enter_context(stage_file(path, chunks, disk)), path))

        if earlier:
            stage(folder / EARLIER_FILE, earlier)
        stage(results, sealed)
        # The digest is known once the record is written.
        stage(judged, _verdict_lines(replace(verdict, results_digest=sealed.digest)))
        disk.replace(*new)
    return results


def write_verdict(path: Path, verdict: Verdict, disk: Disk = DISK) -> None:
    """Write a verdict to `path`, one case per line, replacing the file atomically.

    Raises:
        OSError: the file cannot be written; an existing file is unchanged.
    """
    write_atomically(path, _verdict_lines(verdict), disk=disk)


def write_combined(path: Path, verdict: CombinedVerdict, disk: Disk = DISK) -> None:
    """Write the verdict of several suites to `path`, replacing the file atomically.

    Raises:
        OSError: the file cannot be written; an existing file is unchanged.
    """
    write_atomically(path, [to_json(verdict, 1), b"\n"], disk=disk)


def _verdict_lines(verdict: Verdict) -> Iterable[bytes]:
    return chain(lines_of(verdict_head(verdict), (to_json(written_case(case)) for case in verdict.cases)), [END])
