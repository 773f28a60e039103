"""Reads rows of cases in separate processes: from files that extensions read, and from functions of the checkout."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from holodeck_action.record.disk import UNSYNCED_DISK, write_new
from holodeck_action.run.environments.setup import PackageSetup
from holodeck_action.seam.manifest import Table
from holodeck_action.suite.cases.case_files import RowsError
from holodeck_action.suite.checkout import MOST_YAML, Checkout
from holodeck_action.text.foreign import bounded_lines, open_file
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.pool import WorkerPool
from holodeck_action.workers.watching import Watch

if TYPE_CHECKING:
    from holodeck_action.run.environments.extra_needs import NeededExtra
    from holodeck_action.suite.model.environments import Environment

SECONDS = 60.0
"""Time limit in seconds for all rows; the import of a function is not included."""
_BLOCK = 1 << 20


class CaseRows:
    """Reads rows of cases for one suite through a temporary file, so that few rows are in memory at once.

    Attributes:
        functions: the references to functions that were called.
        used: absolute paths of the files that these functions used (see `FileWatch`).
    """

    def __init__(
        self,
        checkout: Checkout,
        environ: Mapping[str, str],
        setup: PackageSetup,
        install: Callable[[Sequence[NeededExtra]], None] = lambda needs: None,
        seconds: float = SECONDS,
    ) -> None:
        """Create the reader.

        Args:
            checkout: the suite's checkout.
            environ: the job's environment; functions get it without the job's tokens.
            setup: how to install the packages that the functions need, with the permission to start code.
            install: called with a missing extra before an error is raised; see `SuiteContext`.
            seconds: time limit for all rows.
        """
        self._checkout = checkout
        self._environ = environ
        self._setup = setup
        self._install = install
        self._seconds = seconds
        self.functions: list[str] = []
        self.used: list[str] = []
        # The suite is not read yet, so its other secrets are unknown.
        self._redact = Redactor(environment_secrets(environ)).text

    def read_table(self, kind: Table, file: BinaryIO, sheet: str | None) -> Iterator[bytes]:
        """Yield the rows of a file; see `RowSource.read_table`."""
        # Most files of cases are read without an extension.
        from importlib.util import find_spec

        from holodeck_action.run.environments.extra_needs import NeededExtra
        from holodeck_action.seam.extras import way_to_get
        from holodeck_action.workers.limited_workers import limited_worker_pool

        if kind.package and find_spec(kind.package) is None:
            self._install((NeededExtra(kind.extra, f"cases in a file {kind.suffix}"),))
            raise RowsError(
                f"{kind.suffix.removeprefix('.').capitalize()} needs the Python package '{kind.package}', which "
                f"is not installed; {way_to_get(kind.extra)}"
            )
        pool = limited_worker_pool(self._environ, size=1, redact=self._redact)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, f"cases{kind.suffix}")
            write_new(copy, iter(partial(file.read, _BLOCK), b""), UNSYNCED_DISK)
            args = {"path": str(copy), **({"sheet": sheet} if kind.sheets else {})}
            yield from self._read_rows(pool, kind.rows, args, folder, with_names=False)

    def call_function(self, reference: str, environment: Environment | None) -> Iterator[bytes]:
        """Yield the rows of a function; see `RowSource.call_function`."""
        # Few suites have cases of a function.
        from holodeck_action.run.environments.environments import environment_python
        from holodeck_action.run.environments.packages import PackagesError

        folder, cwd = self._checkout.folder, self._checkout.cwd
        try:
            python = environment_python(environment, self._checkout, self._environ, self._setup)
        except PackagesError as error:
            raise RowsError(f"{reference}: its environment: {error}") from None
        interpreter = None if python is None else python.interpreter
        pool = WorkerPool(
            folder,
            environ=self._environ,
            cwd=cwd,
            size=1,
            code=self._setup.code,
            redact=self._redact,
            interpreter=interpreter,
            watch=Watch(self._checkout.root_paths, self.used.extend),
        )
        self.functions.append(reference)
        with tempfile.TemporaryDirectory() as rows:
            yield from self._read_rows(pool, reference, {}, rows)

    def _read_rows(
        self, pool: WorkerPool, reference: str, args: Mapping[str, Any], folder: str, *, with_names: bool = True
    ) -> Iterator[bytes]:
        path = Path(folder, "rows.jsonl")
        try:
            asyncio.run(self._write_rows(pool, reference, {"args": args, "rows": str(path)}))
        except UserCodeError as error:
            message = error.message
            raise RowsError(message if with_names else message.removeprefix(f"{reference}: ")) from None
        try:
            # Code of the suite could have replaced the file by a link.
            with open_file(path, None, follow_links=False) as file:
                yield from bounded_lines(file, MOST_YAML)
        except OSError as error:
            raise RowsError(f"{reference}: its rows cannot be read: {error.strerror}") from None

    async def _write_rows(self, pool: WorkerPool, reference: str, payload: Mapping[str, Any]) -> None:
        async with pool:
            await pool.call("rows", reference, payload, self._seconds, max_bytes=MOST_YAML)
