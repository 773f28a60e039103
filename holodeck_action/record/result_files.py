"""`results.json` and `verdict.json`: read strictly, and bound to each other by digests.

The last line of results.json is the SHA-256 of everything before it, which verdict.json repeats. It tells what was cut
short, edited or mixed up; it is no signature.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, overload

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.record.canonical import chosen_cases, head_of
from holodeck_action.record.parsed_record import examined, parsed_once
from holodeck_action.record.record import FIRST_VERSION, Record
from holodeck_action.record.sealing import DIGEST, RECORD_DIGEST, Sealed, lines_of
from holodeck_action.record.stored_cases import (
    INDEXED_FROM,
    RecordError,
    case_lines,
    check_weight,
    indexed,
)
from holodeck_action.text.foreign import ForeignError, open_file, read_file
from holodeck_action.text.given_paths import GivenPath

RESULTS_FILE = "results.json"
TABLES_FOLDER, _MANIFEST_FILE = "results.parquet", "manifest.json"
"""The record of a run as an earlier version could write it, and the file in it that names the others."""
VERDICT_FILE = "verdict.json"
BASE_FOLDER = "base"
"""Where the results of the base are, beside those of the run that is compared with it."""
EARLIER_FILE = "earlier-runs.jsonl"
"""The earlier runs of a history, beside the results of the run that was added to it or only read it."""
_LINE_BYTES = 128
_LARGEST_VERDICT = 1 << 30
_AGAIN = "use the file as the run wrote it"


class Results(Struct, frozen=True):
    """What a results file holds.

    Attributes:
        record: the run.
        digest: of the file; None where a version before digests wrote it.
        record_digest: of the canonical record; None where a version wrote it that did not tell it.
    """

    record: Record
    digest: str | None
    record_digest: str | None = None


class BaseResults(Struct, frozen=True):
    """The results of a base: the pieces of its file, each time they are asked for, and what it holds."""

    content: Iterable[bytes]
    results: Results


@overload
def results_place(path: Path) -> Path: ...


@overload
def results_place(path: GivenPath) -> GivenPath: ...


def results_place(path: Path | GivenPath) -> Path | GivenPath:
    """Return where the results are that a path names: a results file, or the folder of a run that holds one.

    Tables of an earlier version are found, too, so that opening them says what to do with them.
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
    """Read and validate a record, see `read_results`."""
    return read_results(path).record


def read_results(path: Path | GivenPath, indexed_from: int = INDEXED_FROM) -> Results:
    """Read and validate a record.

    Args:
        path: as `results_place` takes it.
        indexed_from: bytes from which on cases of a results file are read one by one.

    Raises:
        RecordError: it is missing, of another schema version, not a record, or not whole.
    """
    path = results_place(path)
    with opened_results(path) as file:
        large = os.fstat(file.fileno()).st_size >= indexed_from
        found = indexed(file, os.fspath(path)) if large else None
        if found is not None:
            return Results(*found)
        file.seek(0)
        return parse_results(file.read(), path)


@contextmanager
def opened_results(path: os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a results file: the only way to its bytes, so that no command waits for a pipe.

    Raises:
        RecordError: it is missing, no regular file, or cannot be read.
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
    """Return what the verdict.json of a folder says, unchecked; nothing if it is none."""
    try:
        return read_file(Path(folder) / VERDICT_FILE, _LARGEST_VERDICT).json_object()
    except (OSError, ForeignError):
        return {}


def parse_results(content: bytes, path: os.PathLike[str] | str) -> Results:
    """Validate the content of a results file.

    Args:
        content: the file's bytes.
        path: what to call it.

    Raises:
        RecordError: it is not JSON, of another schema version, not a record, or not whole.
    """
    record = parsed_once(content)
    unsealed = False
    if record is None:
        record, unsealed = examined(content, path)
    if len({case.id for case in record.cases}) < len(record.cases):
        raise RecordError(f"{path}: not a results file: two of its cases have the same id")
    for case in record.cases:
        check_weight(case, str(path))
    if unsealed:
        return _without_digest(path, record)
    # Line ends may have been changed by a checkout.
    written = content.replace(b"\r\n", b"\n") if b"\r\n" in content else content
    found = DIGEST.search(written)
    missing = _missing(record, written, found)
    if missing is not None or found is None:
        raise RecordError(f"{path}: is not whole: {missing}; {_AGAIN}")
    known = RECORD_DIGEST.search(written[max(0, found.start() - _LINE_BYTES) : found.start()])
    return Results(record, found[1].decode(), None if known is None else known[1].decode())


def _without_digest(path: os.PathLike[str] | str, record: Record) -> Results:
    """Accept a record of the first version, which cannot show that it is whole, with a notice."""
    if not record.cases:
        raise RecordError(f"{path}: is not whole: it holds no case, and no digest that would show that it held none")
    notice = f"the results are of schema version {FIRST_VERSION}, without a digest: nothing shows that they are whole"
    return Results(replace(record, notices=(*record.notices, notice)), None)


def _missing(record: Record, written: bytes, digest: re.Match[bytes] | None) -> str | None:
    """Say what shows that a record is not as it was written; None when nothing does."""
    if record.chosen is None:
        return "it does not say which cases were chosen"
    if len(record.cases) != record.chosen.cases:
        return f"it holds {len(record.cases)} of the {record.chosen.cases} cases that were chosen"
    if record.chosen != chosen_cases(case.id for case in record.cases):
        return "its cases are not those that were chosen"
    if digest is None:
        return "it has no digest at its end"
    if hashlib.sha256(memoryview(written)[: digest.start()]).hexdigest() != digest[1].decode():
        return "its content is not that of its digest: it was edited or cut short"
    return None


def sealed_record(record: Record, record_digest: str) -> Sealed:
    """Return the pieces of the results file of a record.

    Args:
        record: what a run did.
        record_digest: of its canonical form.
    """
    return Sealed(lambda: lines_of(head_of(record), case_lines(record.cases)), record_digest)
