"""Rows of cases that only a process with limits may read: Parquet files, and what functions of the checkout give."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from holodeck_action.record.disk import UNSYNCED_DISK, write_new
from holodeck_action.run.environments.environments import Installing, python_of
from holodeck_action.run.environments.packages import PackagesError
from holodeck_action.seam.manifest import Table
from holodeck_action.suite.cases.case_files import RowsError
from holodeck_action.suite.checkout import MOST_YAML, Checkout
from holodeck_action.suite.model.environments import Environment
from holodeck_action.text.foreign import bounded_lines, open_file
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.limited import limited_pool
from holodeck_action.workers.pool import WorkerPool

SECONDS = 60.0
"""Longest time that it may take until all rows are there, the import of a function excluded."""
_BLOCK = 1 << 20


class CaseRows:
    """Reads rows for one suite; they pass through a temporary file, so that few are in memory at once."""

    def __init__(
        self, checkout: Checkout, environ: Mapping[str, str], installing: Installing, seconds: float = SECONDS
    ) -> None:
        """Prepare.

        Args:
            checkout: of the suite.
            environ: the job's environment; functions see it without the job's tokens, Parquet files not at all.
            installing: how the packages of functions come, with the permission to start them.
            seconds: longest time that it may take.
        """
        self._checkout = checkout
        self._environ = environ
        self._installing = installing
        self._seconds = seconds
        # Before the suite is read, no other secret is known.
        self._redact = Redactor(environment_secrets(environ)).text

    def table(self, kind: Table, file: BinaryIO) -> Iterator[bytes]:
        """Yield the rows of a file; see `RowSource.table`."""
        if find_spec(kind.package) is None:
            raise RowsError(
                f"{kind.suffix.removeprefix('.').capitalize()} needs the package {kind.package}, which is not "
                f"installed; install it with: pip install 'holodeck-action[{kind.extra}]'"
            )
        pool = limited_pool(self._environ, size=1, redact=self._redact)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, f"cases{kind.suffix}")
            write_new(copy, iter(partial(file.read, _BLOCK), b""), UNSYNCED_DISK)
            yield from self._rows(pool, kind.rows, {"path": str(copy)}, folder, named=False)

    def python(self, reference: str, environment: Environment | None) -> Iterator[bytes]:
        """Yield what a function gives; see `RowSource.python`."""
        folder, cwd = self._checkout.folder, self._checkout.cwd
        try:
            python = python_of(environment, self._checkout, self._environ, self._installing)
        except PackagesError as error:
            raise RowsError(f"{reference}: its environment: {error}") from None
        interpreter = None if python is None else python.interpreter
        pool = WorkerPool(
            folder,
            environ=self._environ,
            cwd=cwd,
            size=1,
            code=self._installing.code,
            redact=self._redact,
            interpreter=interpreter,
        )
        with tempfile.TemporaryDirectory() as rows:
            yield from self._rows(pool, reference, {}, rows)

    def _rows(
        self, pool: WorkerPool, reference: str, args: Mapping[str, Any], folder: str, *, named: bool = True
    ) -> Iterator[bytes]:
        path = Path(folder, "rows.jsonl")
        try:
            asyncio.run(self._write(pool, reference, {"args": args, "rows": str(path)}))
        except UserCodeError as error:
            message = error.message
            raise RowsError(message if named else message.removeprefix(f"{reference}: ")) from None
        try:
            # Code of the suite has had the file in its hands.
            with open_file(path, None, follow=False) as file:
                yield from bounded_lines(file, MOST_YAML)
        except OSError as error:
            raise RowsError(f"{reference}: its rows cannot be read: {error.strerror}") from None

    async def _write(self, pool: WorkerPool, reference: str, payload: Mapping[str, Any]) -> None:
        async with pool:
            await pool.call("rows", reference, payload, self._seconds, max_bytes=MOST_YAML)
