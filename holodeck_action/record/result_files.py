"""Reading and writing `results.json`, and reading `verdict.json`.

The last line of results.json is the SHA-256 of everything before that line. verdict.json contains the same digest. Thus
truncated, edited and exchanged files are detected, although the digest is not a signature.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.record.canonical import chosen_cases, fields_without_cases
from holodeck_action.record.parsed_record import (
    LEAST_WEIGHT,
    MOST_WEIGHT,
    RecordError,
    parse_any_version,
    parse_current,
)
from holodeck_action.record.record import FIRST_VERSION, Record
from holodeck_action.record.sealing import DIGEST, RECORD_DIGEST, SealedFile, lines_of
from holodeck_action.record.serialization import to_json
from holodeck_action.text.foreign import ForeignError, open_file, read_file
from holodeck_action.text.given_paths import GivenPath

AnyPath = TypeVar("AnyPath", Path, GivenPath, Path | GivenPath)

RESULTS_FILE = "results.json"
TABLES_FOLDER, _MANIFEST_FILE = "results.parquet", "manifest.json"
"""The folder of a record in Parquet tables, written by earlier versions, and the file that lists the tables."""
VERDICT_FILE = "verdict.json"
BASE_FOLDER = "base"
"""The folder with the results of the base, inside the folder of the run."""
FINISHED_FILE = ".finished.jsonl"
"""The journal of a run that has ended, from which `--resume` repeats the results without a call."""
EARLIER_FILE = "earlier-runs.jsonl"
"""The earlier runs of a history, next to the results of a run."""
_LINE_BYTES = 128
_LARGEST_VERDICT = 1 << 30
_USE_ORIGINAL = "use the file as the run wrote it"


class Results(Struct, frozen=True):
    """The content of a results file.

    Attributes:
        record: the run.
        digest: digest of the file; None if a version without digests wrote it.
        record_digest: digest of the canonical record; None if the file does not have it.
    """

    record: Record
    digest: str | None
    record_digest: str | None = None


class BaseResults(Struct, frozen=True):
    """The results of a base: the content of its file, and the same parsed."""

    content: bytes
    results: Results


def results_path(path: AnyPath) -> AnyPath:
    """Return the path of a results file; `path` is the file itself or the folder of its run.

    If the folder has only tables of an earlier version, return their path, so that opening it fails with a helpful
    error.
    """
    if os.path.isfile(path):
        return path
    results = path if path.name == RESULTS_FILE else path / RESULTS_FILE
    tables = results.parent / TABLES_FOLDER
    if os.path.exists(results):
        return results
    return tables if _is_tables(tables) else path


def _is_tables(path: os.PathLike[str]) -> bool:
    return os.path.isfile(os.path.join(path, _MANIFEST_FILE))


def read_record(path: Path | GivenPath) -> Record:
    """Read and validate the record of a results file; see `read_results`."""
    return read_results(path).record


def read_results(path: Path | GivenPath) -> Results:
    """Read and validate a record.

    Args:
        path: a results file, or the folder of a run.

    Raises:
        RecordError: the file is missing, has another schema version, is not a record, or is incomplete.
    """
    path = results_path(path)
    with open_results(path) as file:
        return parse_results(file.read(), path)


@contextmanager
def open_results(path: os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a results file without waiting for a pipe; all commands open results here.

    Raises:
        RecordError: the file is missing, is not a regular file, or cannot be read.
    """
    try:
        with open_file(path, None) as file:
            yield file
    except OSError as error:
        if _is_tables(path):
            raise RecordError(
                f"{path}: is a record in Parquet tables of an earlier version, which is not read any more; convert it "
                f"with that version: holodeck-action export {path} --format json -o {RESULTS_FILE}"
            ) from error
        if os.path.isdir(path):
            raise RecordError(f"{path}: holds no {RESULTS_FILE}; give the output folder of a run") from error
        raise RecordError(f"{path}: cannot be read: {error.strerror}; give the results.json of a run") from error


def verdict_values(folder: os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a folder's verdict.json, unchecked; empty if it is missing or invalid."""
    try:
        return read_file(Path(folder) / VERDICT_FILE, _LARGEST_VERDICT).json_object()
    except (OSError, ForeignError):
        return {}


def parse_results(content: bytes, path: os.PathLike[str] | str) -> Results:
    """Validate the content of a results file.

    Args:
        content: the file's bytes.
        path: the file's name in messages.

    Raises:
        RecordError: the content is not JSON, has another schema version, is not a record, or is incomplete.
    """
    record = parse_current(content)
    unsealed = False
    if record is None:
        record, unsealed = parse_any_version(content, path)
    if len({case.id for case in record.cases}) < len(record.cases):
        raise RecordError(f"{path}: not a results file: two of its cases have the same id")
    for case in record.cases:
        if not LEAST_WEIGHT <= case.weight <= MOST_WEIGHT:
            raise RecordError(f"{path}: not a results file: the weight of a case is {case.weight:g}")
    if unsealed:
        return _accept_without_digest(path, record)
    # A checkout may have changed the line ends.
    written = content.replace(b"\r\n", b"\n") if b"\r\n" in content else content
    found = DIGEST.search(written)
    missing = _integrity_problem(record, written, found)
    if missing is not None or found is None:
        raise RecordError(f"{path}: is incomplete: {missing}; {_USE_ORIGINAL}")
    known = RECORD_DIGEST.search(written[max(0, found.start() - _LINE_BYTES) : found.start()])
    return Results(record, found[1].decode(), None if known is None else known[1].decode())


def _accept_without_digest(path: os.PathLike[str] | str, record: Record) -> Results:
    """Accept a record of the first version, which has no digest, and add a notice."""
    if not record.cases:
        raise RecordError(f"{path}: is incomplete: it contains no case and no digest")
    notice = (
        f"the results are of schema version {FIRST_VERSION}, without a digest, so their completeness cannot be checked"
    )
    return Results(replace(record, notices=(*record.notices, notice)), None)


def _integrity_problem(record: Record, content: bytes, digest: re.Match[bytes] | None) -> str | None:
    """Return a clause with the reason why a record is incomplete or was changed; None if it is intact."""
    if record.chosen is None:
        return "it does not record which cases were chosen"
    if len(record.cases) != record.chosen.cases:
        return f"it holds {len(record.cases)} of the {record.chosen.cases} chosen cases"
    if record.chosen != chosen_cases(case.id for case in record.cases):
        return "its cases differ from the chosen ones"
    if digest is None:
        return "it has no digest at its end"
    if hashlib.sha256(memoryview(content)[: digest.start()]).hexdigest() != digest[1].decode():
        return "its content does not match its digest: it was edited or truncated"
    return None


def sealed_record(record: Record, record_digest: str) -> SealedFile:
    """Return the pieces of the results file for a record.

    Args:
        record: the record to write.
        record_digest: digest of its canonical form.
    """
    return SealedFile(lines_of(fields_without_cases(record), map(to_json, record.cases)), record_digest)
