"""The results of a run's base, in a form that can be copied to another folder without loading a large file."""

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
    open_results,
    parse_results,
    results_path,
    sealed_record,
)
from holodeck_action.record.stored_cases import INDEXED_FROM, RecordError, StoredCases, index_cases
from holodeck_action.text.given_paths import GivenPath

NO_BASE = "is of a run that stopped when its exit code was certain, so not all of its cases count"
"""End of a sentence with the reason why the results of a run that stopped early cannot be a base."""


def make_base_results(record: Record) -> BaseResults:
    """Return a record's results in a form that can be copied; no results file is needed."""
    sealed = sealed_record(record, record_digest(record))
    if isinstance(record.cases, tuple):
        content = b"".join(sealed)
        return BaseResults((content,), Results(record, sealed.digest, sealed.record_digest))
    for _ in sealed:
        # The digest is known after the last piece.
        pass
    return BaseResults(sealed, Results(record, sealed.digest, sealed.record_digest))


def read_results_file(path: Path | GivenPath) -> BaseResults:
    """Read a results file, or the results in a run's folder, in a form that can be copied.

    Raises:
        RecordError: as for `read_results`.
    """
    path = results_path(path)
    with open_results(path) as file:
        return read_open_results(file, os.fspath(path))


def read_open_results(file: BinaryIO, name: str) -> BaseResults:
    """Read an open results file, which may be closed, replaced and deleted afterwards.

    Args:
        file: the file, positioned at its beginning.
        name: the name of the file in messages.

    Raises:
        RecordError: as for `parse_results`.
        OSError: the file cannot be read.
    """
    if os.fstat(file.fileno()).st_size >= INDEXED_FROM:
        found = index_cases(file, name)
        if found is not None and isinstance(found[0].cases, StoredCases):
            return BaseResults(found[0].cases.file, Results(*found))
        file.seek(0)
    content = file.read()
    return BaseResults((content,), parse_results(content, name))


def parse_base_results(content: bytes, name: str) -> BaseResults:
    """Parse the content of a results file; large content is kept in an anonymous temporary file.

    Raises:
        RecordError: as for `parse_results`.
    """
    if len(content) < INDEXED_FROM:
        return BaseResults((content,), parse_results(content, name))
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return read_open_results(file, name)


def read_base_results(path: Path | GivenPath, record: Record) -> BaseResults | None:
    """Read the results with which a run was compared.

    Args:
        path: the results file of the run.
        record: the content of that file.

    Returns:
        The results of the base; None if the run has no base.

    Raises:
        RecordError: the base's results are missing from the run's folder, or have another digest.
    """
    if record.baseline is None or record.baseline.base is None:
        return None
    name = Path(results_path(path)).parent / BASE_FOLDER / RESULTS_FILE
    base = read_results_file(name)
    if record.run.base_digest is None or base.results.digest != record.run.base_digest:
        raise RecordError(
            f"{name}: does not match the base that {path} was compared with; copy the whole folder of the run"
        )
    return base


def read_base(path: Path | GivenPath, record: Record) -> Results | None:
    """Read only the parsed results of a run's base, without the bytes of the file; see `read_base_results`."""
    base = read_base_results(path, record)
    return None if base is None else base.results
