"""Reads documents as text. Formats other than plain text are converted in worker processes with limits."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holodeck_action.seam.extras import way_to_get
from holodeck_action.suite.checkout import MOST_FILE, Checkout
from holodeck_action.targets.documents.kinds import KIND_NAMES, Kind, document_kind
from holodeck_action.text.foreign import Redact, RefusedFileError
from holodeck_action.text.plain import cut
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.limited_workers import limited_worker_pool

MOST_TEXT = 16 << 20
"""Maximum bytes of UTF-8 in the text of one document."""

_PACKAGE = "holodeck_action.targets.documents"
_CONVERTERS: dict[Kind, str] = {
    "html": f"{_PACKAGE}.markdown:convert_html",
    "pdf": f"{_PACKAGE}.markdown:convert_pdf",
    "excel": f"{_PACKAGE}.excel:convert_excel",
    "word": f"{_PACKAGE}.markdown:convert_office",
    "powerpoint": f"{_PACKAGE}.markdown:convert_office",
}
EXTRA = "files"
"""Name of the package extra that installs the libraries for documents."""
_WORKERS = 2
_LONGEST_REASON = 300


class DocumentError(Exception):
    """A document cannot be read, or has no text.

    Attributes:
        message: a clause without the file's name: `there is no page 9: it has 3 pages`.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def missing_packages(kind: Kind) -> str | None:
    """Return a sentence about the packages that are missing to read a kind of document; None if none is missing."""
    if kind == "text" or importlib.util.find_spec("markitdown") is not None:
        return None
    return f"reading a {KIND_NAMES[kind]} needs the `{EXTRA}` extra, which is not installed; {way_to_get(EXTRA)}"


class DocumentReader:
    """Converts documents to text. An instance belongs to one event loop.

    Texts are cached until `close`, so that trials of a case share one conversion.
    """

    def __init__(self, *, timeout_s: float, environ: Mapping[str, str], redact: Redact) -> None:
        """Create the reader; no process is started before a document needs it.

        Args:
            timeout_s: maximum seconds of one conversion (`execution.file_timeout`), without the wait for a free
                process.
            environ: the job's environment; the processes receive only the variables that Python needs.
            redact: removes secrets from error messages.
        """
        self._timeout_s = timeout_s
        self._pool = limited_worker_pool(environ, size=_WORKERS, redact=redact)
        self._conversions: dict[tuple[object, ...], asyncio.Task[str]] = {}

    async def text(
        self,
        path: Path,
        checkout: Checkout,
        *,
        pages: Sequence[int] | None = None,
        sheet: str | None = None,
        cells: str | None = None,
        kind: Kind | None = None,
    ) -> str:
        """Return the text of a document: a plain text file unchanged, other kinds as Markdown.

        Args:
            path: path of the file.
            checkout: the folders that may be read.
            pages: numbers of a PDF's pages, from 1, in the order of the returned text; None to convert all.
            sheet: name of an Excel sheet; None to convert all sheets, or only the first sheet if `cells` is given.
            cells: range of cells in the sheet, such as `A1:C10`; None to convert all cells.
            kind: the kind of document; None to detect it by the extension.

        Raises:
            DocumentError: the document cannot be read.
        """
        kind = kind or document_kind(path)
        place, version = _check_file(path, checkout)
        options: dict[str, Any] = {}
        if kind == "pdf":
            options = {"pages": None if pages is None else list(pages)}
        elif kind == "excel":
            options = {"sheet": sheet, "cells": cells}
        elif kind in ("word", "powerpoint"):
            options = {"kind": kind}
        key = (place, version, kind, repr(options))
        if key not in self._conversions:
            reading = (
                asyncio.to_thread(_read_text, place, checkout)
                if kind == "text"
                else self._convert(place, checkout, kind, options)
            )
            self._conversions[key] = asyncio.create_task(reading)
        # Shielded, because other callers may wait for the same conversion.
        return await asyncio.shield(self._conversions[key])

    async def close(self) -> None:
        """Stop the processes; conversions in progress fail."""
        await self._pool.close()
        await asyncio.gather(*self._conversions.values(), return_exceptions=True)

    async def _convert(self, path: str, checkout: Checkout, kind: Kind, options: Mapping[str, Any]) -> str:
        missing = missing_packages(kind)
        if missing is not None:
            raise DocumentError(missing)
        reference = _CONVERTERS[kind]
        try:
            outcome = await self._pool.call(
                "tool",
                reference,
                {
                    "args": {
                        "path": path,
                        "roots": None if checkout.roots is None else [str(root) for root in checkout.roots],
                        **options,
                    }
                },
                self._timeout_s,
                max_bytes=MOST_TEXT,
            )
        except UserCodeError as error:
            raise DocumentError(_failure_clause(error, reference, kind, self._timeout_s)) from None
        match outcome.value:
            case {"value": str() as text, "cut": False}:
                return text
            case _:
                raise DocumentError(
                    f"the text of the document is longer than {MOST_TEXT >> 20} MiB; give a smaller part"
                )


def _check_file(path: Path, checkout: Checkout) -> tuple[str, tuple[int, int]]:
    """Check that a file may be read; return its absolute path, and its modification time and size.

    Raises:
        DocumentError: the file does not exist or must not be read.
    """
    try:
        found = checkout.check(path, MOST_FILE)
    except RefusedFileError as error:
        raise DocumentError(f"the file {error.clause}") from None
    except IsADirectoryError:
        raise DocumentError("the path is not a regular file") from None
    except OSError as error:
        raise DocumentError(f"the file cannot be read: {error.strerror}") from None
    return os.fspath(path.absolute()), (found.st_mtime_ns, found.st_size)


def _read_text(path: str, checkout: Checkout) -> str:
    """Return the text of a UTF-8 file without its byte-order mark."""
    try:
        with checkout.open(path, MOST_FILE) as file:
            data = file.read(MOST_TEXT + 1)
    except OSError as error:
        raise DocumentError(f"the file cannot be read: {error.strerror}") from None
    if len(data) > MOST_TEXT:
        raise DocumentError(f"the file is larger than {MOST_TEXT >> 20} MiB; give a smaller part of it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"the file is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None


def _failure_clause(error: UserCodeError, reference: str, kind: Kind, timeout_s: float) -> str:
    """Return why a conversion failed, as a clause."""
    shown = KIND_NAMES[kind]
    match error.code, error.type:
        case "raised", "UnreadableError":
            return error.text
        case "raised", "MemoryError":
            return f"reading the {shown} needs more memory than the limit; give a smaller one"
        case "raised", _:
            return cut(f"the file cannot be read as a {shown}: {error.type}: {error.text}", _LONGEST_REASON)
        case "timeout", _:
            return (
                f"the {shown} was not read within {timeout_s:g} s; raise execution.file_timeout, or give a smaller one"
            )
        case "import_failed" | "missing_module", _:
            way = f"in a new environment, {way_to_get(EXTRA)}"
            return f"the packages that read a {shown} cannot be imported: {error.text}; {way}"
        case _:
            return f"the {shown} cannot be read: {error.message.removeprefix(f'{reference}: ')}"
