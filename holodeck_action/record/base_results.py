"""The results of a run's base, with the bytes of its file, which are copied to other folders."""

from __future__ import annotations

import os
from pathlib import Path

from holodeck_action.record.canonical import record_digest
from holodeck_action.record.parsed_record import RecordError
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
from holodeck_action.text.given_paths import GivenPath

NO_BASE = "is of a run that stopped when its exit code was certain, so not all of its cases count"
"""End of a sentence with the reason why the results of a run that stopped early cannot be a base."""


def make_base_results(record: Record) -> BaseResults:
    """Return a record's results as they would be written to a file."""
    sealed = sealed_record(record, record_digest(record))
    content = b"".join(sealed)
    return BaseResults(content, Results(record, sealed.digest, sealed.record_digest))


def read_results_file(path: Path | GivenPath) -> BaseResults:
    """Read a results file, or the results in a run's folder, with their bytes.

    Raises:
        RecordError: as for `read_results`.
    """
    path = results_path(path)
    with open_results(path) as file:
        return parse_base_results(file.read(), os.fspath(path))


def parse_base_results(content: bytes, name: str) -> BaseResults:
    """Parse the content of a results file, and keep its bytes.

    Raises:
        RecordError: as for `parse_results`.
    """
    return BaseResults(content, parse_results(content, name))


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
