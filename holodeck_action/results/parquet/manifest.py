"""The manifest of a record in Parquet: a results file with a list of parts in place of the cases.

Each part holds a range of cases in four tables, which it names with their rows, bytes and SHA-256; the last line is the
SHA-256 of the manifest itself.
"""

from __future__ import annotations

import hashlib
import os
from typing import Annotated, BinaryIO

from msgspec import Meta, Struct, ValidationError

from holodeck_action.results.parquet.columns import TABLES
from holodeck_action.results.record import SCHEMA_VERSION, Record
from holodeck_action.results.sealing import DIGEST, RECORD_DIGEST
from holodeck_action.results.serialization import from_plain, problem_of
from holodeck_action.results.stored_cases import RecordError
from holodeck_action.text.foreign import Foreign, OpenFolder, RefusedFileError
from holodeck_action.text.json_values import parse_json

MANIFEST_FILE = "manifest.json"
LAYOUT = 1
"""Version of the folder."""

_MOST_MANIFEST = 64 * 1024 * 1024
_LINE_BYTES = 128
AGAIN = "use the folder as the run wrote it"

Count = Annotated[int, Meta(ge=0)]


class TableFile(Struct, frozen=True):
    """A file of a part."""

    rows: Count
    bytes: Count
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]


class Part(Struct, frozen=True):
    """A range of cases: how many bytes they have in a results file, and their tables."""

    json_bytes: Count
    cases: TableFile
    trials: TableFile
    turns: TableFile
    evaluations: TableFile

    @property
    def files(self) -> tuple[TableFile, ...]:
        """The files of all tables, in the order of `TABLES`."""
        return tuple(getattr(self, name) for name in TABLES)


def file_names(number: int) -> tuple[str, ...]:
    """Return the names of the files of a part, in the order of `TABLES`."""
    return tuple(f"{name}-{number:05}.parquet" for name in TABLES)


def read_manifest(folder: RecordFolder) -> tuple[Record, tuple[Part, ...], str, str | None]:
    """Read the manifest of a record.

    Returns:
        The record without its cases, its parts, the digest of the manifest and that of the canonical record (None: it
        does not tell).

    Raises:
        RecordError: it is not there, of another version, or not whole.
    """
    name = folder.named(MANIFEST_FILE)
    with folder.open(MANIFEST_FILE) as file:
        content = file.read(_MOST_MANIFEST + 1)
    if len(content) > _MOST_MANIFEST:
        raise RecordError(f"{name}: holds more than {_MOST_MANIFEST:,} bytes; {AGAIN}")
    # Line ends may have been changed by a checkout.
    content = content.replace(b"\r\n", b"\n")
    try:
        document = parse_json(Foreign(content).text())
        if not isinstance(document, dict):
            raise ValueError("it is no object")
        version = document.get("schema_version"), document.get("layout")
        if version != (SCHEMA_VERSION, LAYOUT):
            raise RecordError(
                f"{name}: schema_version and layout are {version}, this version reads {SCHEMA_VERSION, LAYOUT}; "
                "use the version of holodeck-action that wrote it"
            )
        parts = from_plain(document.pop("parts", None), tuple[Part, ...])
        record = from_plain({**document, "cases": ()}, Record)
    except ValidationError as error:
        raise RecordError(f"{name}: no manifest of a record: {problem_of(error)}; {AGAIN}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{name}: no manifest of a record: not valid JSON ({error}); {AGAIN}") from error
    found = DIGEST.search(content)
    if found is None or hashlib.sha256(memoryview(content)[: found.start()]).hexdigest() != found[1].decode():
        raise RecordError(f"{name}: is not whole: it was edited or cut short; {AGAIN}")
    known = RECORD_DIGEST.search(content[max(0, found.start() - _LINE_BYTES) : found.start()])
    return record, parts, found[1].decode(), None if known is None else known[1].decode()


class RecordFolder:
    """The folder of a record, which may be renamed while it is read; links in it are not followed."""

    def __init__(self, path: os.PathLike[str]) -> None:
        self._path = path
        try:
            self._folder = OpenFolder(path)
        except OSError as error:
            raise RecordError(f"{path}: cannot be read: {error.strerror}; give the results of a run") from error

    def __str__(self) -> str:
        return str(self._path)

    def named(self, name: str) -> str:
        """Return what to call a file of it."""
        return os.path.join(str(self._path), name)

    def open(self, name: str) -> BinaryIO:
        """Open a file.

        Raises:
            RecordError: it is not there, or no regular file.
        """
        try:
            return self._folder.open(name, None)
        except RefusedFileError as error:
            raise RecordError(f"{self.named(name)}: {error.clause}; {AGAIN}") from error
        except OSError as error:
            raise RecordError(f"{self.named(name)}: cannot be read: {error.strerror}; {AGAIN}") from error

    def check_names(self, parts: int) -> None:
        """Refuse tables that the manifest does not name, which other programs would read.

        Raises:
            RecordError: naming the first one.
        """
        own = {name for number in range(parts) for name in file_names(number)}
        foreign = sorted(name for name in self._folder.names() if name.endswith(".parquet") and name not in own)
        if foreign:
            raise RecordError(
                f"{self.named(foreign[0])}: is of another record, as the manifest does not name it; {AGAIN}"
            )


def stored_bytes(path: os.PathLike[str]) -> int:
    """Return how many bytes a record has as a results file, by its manifest.

    Raises:
        RecordError: it cannot be read.
    """
    return sum(part.json_bytes for part in read_manifest(RecordFolder(path))[1])
