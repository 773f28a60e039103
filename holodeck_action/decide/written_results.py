"""The folder of a run: its record, its verdict, and what stands beside them, each put in place in one step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.verdict import CombinedVerdict, Verdict
from holodeck_action.decide.verdict_file import verdict_head, written_cases
from holodeck_action.record.disk import DISK, Disk, staged, write_atomically
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


class Beside(Struct, frozen=True):
    """What stands beside a run's results: those of its base (None: none), and the lines of the earlier runs."""

    base: BaseResults | None = None
    earlier: Sequence[bytes] = ()


NOTHING_BESIDE = Beside()


def write_results(
    folder: Path, record: Record, verdict: Verdict, disk: Disk = DISK, beside: Beside = NOTHING_BESIDE
) -> Path:
    """Write a record and its verdict, which names the record's digest, into a folder, and what a report needs besides.

    The verdict is put in place last: where it stands, so do the results that it is about.

    Args:
        folder: where they go.
        record: what a run did.
        verdict: on it.
        disk: what is written with.
        beside: what else stands there.

    Returns:
        Where the record is.

    Raises:
        OSError: one of them cannot be written; nothing was replaced unless the verdict alone is missing.
    """
    base, earlier = beside.base, beside.earlier
    if base is not None:
        below = folder / BASE_FOLDER
        below.mkdir(exist_ok=True)
        write_atomically(below / RESULTS_FILE, base.content, disk=disk)
    results, judged = folder / RESULTS_FILE, folder / VERDICT_FILE
    sealed = sealed_record(record, verdict.record_digest)
    with ExitStack() as stack:
        new: list[tuple[Path, Path]] = []

        def stage(path: Path, chunks: Iterable[bytes]) -> None:
            new.append((stack.enter_context(staged(path, chunks, disk)), path))

        if earlier:
            stage(folder / EARLIER_FILE, earlier)
        stage(results, sealed)
        # The digest is known once the record is written.
        stage(judged, _verdict_lines(replace(verdict, results_digest=sealed.digest)))
        disk.replace(*new)
    return results


def write_verdict(path: Path, verdict: Verdict, disk: Disk = DISK) -> None:
    """Write a verdict to `path`, one case per line, replacing it in one step.

    Raises:
        OSError: the file cannot be written; what stood there before is untouched.
    """
    write_atomically(path, _verdict_lines(verdict), disk=disk)


def write_combined(path: Path, verdict: CombinedVerdict, disk: Disk = DISK) -> None:
    """Write the verdict of several suites to `path`, replacing it in one step.

    Raises:
        OSError: the file cannot be written; what stood there before is untouched.
    """
    write_atomically(path, [to_json(verdict, 1), b"\n"], disk=disk)


def _verdict_lines(verdict: Verdict) -> Iterator[bytes]:
    yield from lines_of(verdict_head(verdict), map(to_json, written_cases(verdict.cases)))
    yield END
