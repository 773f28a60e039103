"""Documents as text, converted in worker processes that are killed at their deadline and replaced after a crash."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holodeck_action.suite.checkout import MOST_FILE, Checkout
from holodeck_action.targets.documents.kinds import SHOWN, Kind, kind_of
from holodeck_action.text.foreign import Redact, RefusedFileError
from holodeck_action.text.plain import cut
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.limited import limited_pool

MOST_TEXT = 16 << 20
"""Most bytes of UTF-8 in the text of one document: far more than any model reads."""

_PACKAGE = "holodeck_action.targets.documents"
_CONVERTERS: dict[Kind, str] = {
    "html": f"{_PACKAGE}.markdown:html",
    "pdf": f"{_PACKAGE}.markdown:pdf",
    "excel": f"{_PACKAGE}.excel:excel",
    "word": f"{_PACKAGE}.markdown:office",
    "powerpoint": f"{_PACKAGE}.markdown:office",
}
_WORKERS = 2
_LONGEST_REASON = 300


class DocumentError(Exception):
    """A document whose text cannot be had.

    Attributes:
        message: one clause without the file's name, which its reader knows: `there is no page 9: it has 3 pages`.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def missing_packages(kind: Kind) -> str | None:
    """Return what to install before documents of a kind can be read; None when nothing is missing."""
    if kind == "text" or importlib.util.find_spec("markitdown") is not None:
        return None
    return f"reading a {SHOWN[kind]} needs the `files` extra: pip install 'holodeck-action[files]'"


class DocumentReader:
    """Reads documents; used within one event loop.

    What was read is kept until `close`, so that trials of a case share one conversion.
    """

    def __init__(self, *, timeout_s: float, environ: Mapping[str, str], redact: Redact) -> None:
        """Prepare the reader; no process is started before the first document needs one.

        Args:
            timeout_s: seconds one conversion may take (`execution.file_timeout`), waiting for others excluded.
            environ: the job's environment; the processes see only what an interpreter needs of it.
            redact: removes secrets from the reasons why a document cannot be read.
        """
        self._timeout_s = timeout_s
        self._pool = limited_pool(environ, size=_WORKERS, redact=redact)
        self._reading: dict[tuple[object, ...], asyncio.Task[str]] = {}

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
        """Return the text of a document: text files as they are, all others as Markdown.

        Args:
            pages: pages of a PDF in their order, the first is 1; None for all.
            sheet: sheet of an Excel file; None for all (the first where `cells` is given).
            cells: cells of the sheet, such as `A1:C10`; None for all.
            kind: what it is; None to tell by the end of its name.

        Raises:
            DocumentError: it cannot be read.
        """
        kind = kind or kind_of(path)
        place, version = _found(path, checkout)
        options: dict[str, Any] = {}
        if kind == "pdf":
            options = {"pages": None if pages is None else list(pages)}
        elif kind == "excel":
            options = {"sheet": sheet, "cells": cells}
        elif kind in ("word", "powerpoint"):
            options = {"kind": kind}
        key = (place, version, kind, repr(options))
        if key not in self._reading:
            reading = (
                asyncio.to_thread(_plain_text, place, checkout)
                if kind == "text"
                else self._convert(place, checkout, kind, options)
            )
            self._reading[key] = asyncio.create_task(reading)
        # Others may wait for it, too: whoever gives up waiting does not end it.
        return await asyncio.shield(self._reading[key])

    async def close(self) -> None:
        """End the processes; conversions under way fail."""
        await self._pool.close()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)

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
            raise DocumentError(_reason(error, reference, kind, self._timeout_s)) from None
        match outcome.value:
            case {"value": str() as text, "cut": False}:
                return text
            case _:
                raise DocumentError(f"its text is longer than {MOST_TEXT >> 20} MiB; give less of it")


def _found(path: Path, checkout: Checkout) -> tuple[str, tuple[int, int]]:
    """Return a file's absolute path, and what changes when it does.

    Raises:
        DocumentError: there is no such file, or it may not be read.
    """
    try:
        found = checkout.check(path, MOST_FILE)
    except RefusedFileError as error:
        raise DocumentError(f"it {error.clause}") from None
    except IsADirectoryError:
        raise DocumentError("it is no file") from None
    except OSError as error:
        raise DocumentError(f"it cannot be read: {error.strerror}") from None
    return os.fspath(path.absolute()), (found.st_mtime_ns, found.st_size)


def _plain_text(path: str, checkout: Checkout) -> str:
    """Read UTF-8, with or without a byte-order mark."""
    try:
        with checkout.open(path, MOST_FILE) as file:
            data = file.read(MOST_TEXT + 1)
    except OSError as error:
        raise DocumentError(f"it cannot be read: {error.strerror}") from None
    if len(data) > MOST_TEXT:
        raise DocumentError(f"it is larger than {MOST_TEXT >> 20} MiB; give less of it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(f"it is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8") from None


def _reason(error: UserCodeError, reference: str, kind: Kind, timeout_s: float) -> str:
    """Say why a conversion gave no text."""
    shown = SHOWN[kind]
    match error.code, error.type:
        case "raised", "UnreadableError":
            return error.text
        case "raised", "MemoryError":
            return f"the {shown} needs more memory to be read than it may have; give a smaller one"
        case "raised", _:
            return cut(f"it cannot be read as a {shown}: {error.type}: {error.text}", _LONGEST_REASON)
        case "timeout", _:
            return (
                f"the {shown} was not read within {timeout_s:g} s; raise execution.file_timeout, or give a smaller one"
            )
        case "import_failed" | "missing_module", _:
            return f"the packages that read a {shown} cannot be imported: {error.text}; " + (
                "install them again: pip install 'holodeck-action[files]'"
            )
        case _:
            return f"the {shown} cannot be read: {error.message.removeprefix(f'{reference}: ')}"
