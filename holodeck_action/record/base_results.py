"""The results that a run is compared with: read so that their file can be copied, without holding a large one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from holodeck_action.record.canonical import record_digest
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import (
    BASE_FOLDER,
    RESULTS_FILE,
    BaseResults,
    Results,
    opened_results,
    parse_results,
    results_place,
    sealed_record,
)
from holodeck_action.record.stored_cases import INDEXED_FROM, RecordError, StoredCases, indexed
from holodeck_action.text.given_paths import GivenPath


def results_of(record: Record) -> BaseResults:
    """Return the results of a run, with their file as `write_results` would write it."""
    sealed = sealed_record(record, record_digest(record))
    if isinstance(record.cases, tuple):
        content = b"".join(sealed)
        return BaseResults((content,), Results(record, sealed.digest, sealed.record_digest))
    for _ in sealed:
        # At the end its digest is known.
        pass
    return BaseResults(sealed, Results(record, sealed.digest, sealed.record_digest))


def results_at(path: Path | GivenPath) -> BaseResults:
    """Read results whose file may be copied.

    Raises:
        RecordError: as for `read_results`.
    """
    path = results_place(path)
    with opened_results(path) as file:
        return results_from(file, os.fspath(path))


def results_from(file: BinaryIO, name: str) -> BaseResults:
    """Read an open results file, which may be closed, replaced and deleted afterwards.

    Args:
        file: on disk, at its beginning.
        name: what to call it.

    Raises:
        RecordError: as for `parse_results`.
        OSError: it cannot be read.
    """
    if os.fstat(file.fileno()).st_size >= INDEXED_FROM:
        found = indexed(file, name)
        if found is not None and isinstance(found[0].cases, StoredCases):
            return BaseResults(found[0].cases.file, Results(*found))
        file.seek(0)
    content = file.read()
    return BaseResults((content,), parse_results(content, name))


def results_in(content: bytes, name: str) -> BaseResults:
    """Read the content of a results file; of a large one a file without a name keeps it.

    Raises:
        RecordError: as for `parse_results`.
    """
    if len(content) < INDEXED_FROM:
        return BaseResults((content,), parse_results(content, name))
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return results_from(file, name)


def read_base_results(path: Path | GivenPath, record: Record) -> BaseResults | None:
    """Read the results that a run was compared with.

    Args:
        path: the results file of the run.
        record: what it holds.

    Returns:
        Those of the base; None where the run was compared with nothing.

    Raises:
        RecordError: the base's results are not beside the run's, or are others.
    """
    if record.baseline is None or record.baseline.base is None:
        return None
    name = Path(results_place(path)).parent / BASE_FOLDER / RESULTS_FILE
    base = results_at(name)
    if record.run.base_digest is None or base.results.digest != record.run.base_digest:
        raise RecordError(f"{name}: is not what {path} was compared with; keep the folder of the run whole")
    return base


def read_base(path: Path | GivenPath, record: Record) -> Results | None:
    """Read what a run was compared with, see `read_base_results`."""
    base = read_base_results(path, record)
    return None if base is None else base.results
