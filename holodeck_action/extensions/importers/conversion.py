"""Converts an imported file in a worker process with limits on time and memory.

The calling process never parses the file, renders its templates or matches its patterns. The worker process does not
get the job's secrets. It returns the files to write and the import report.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from holodeck_action.extensions.importers.converted_suite import ImportResult, files_of
from holodeck_action.extensions.importers.import_report import Row, merge_rows
from holodeck_action.extensions.importers.proof import Proof
from holodeck_action.extensions.importers.source import Source
from holodeck_action.suite.configuration_errors import ConfigurationError

if TYPE_CHECKING:
    from holodeck_action.run.caller import Caller
    from holodeck_action.text.given_paths import GivenPath

SECONDS = 120.0
"""Time limit of an import, in seconds."""


class Conversion(Struct, frozen=True):
    """The input of a conversion.

    Attributes:
        program: `promptfoo`, `deepeval`, `evals` or `inspect`.
        file: absolute path of the file to import.
        shown: path of the file as the user wrote it, for messages.
        folder: absolute path of the output folder.
        cwd: absolute path of the working folder.
        allow_missing: whether assertions without a counterpart are accepted.
        node: whether Node.js is on the PATH.
        answers: with `--prove`, further answers that each assertion grades; else None.
        recorded: what a file of Python constructs and checks, as JSON.
    """

    program: str
    file: str
    shown: str
    folder: str
    cwd: str
    allow_missing: bool
    node: bool = False
    answers: Sequence[str] | None = None
    recorded: str = ""

    @classmethod
    def of(cls, program: str, file: GivenPath, folder: Path, caller: Caller, *, allow_missing: bool) -> Conversion:
        """Return the conversion of a file to suites in an absolute folder."""
        return cls(
            program=program,
            file=os.fspath(file),
            shown=str(file),
            folder=os.path.abspath(folder),
            cwd=os.fspath(caller.cwd),
            allow_missing=allow_missing,
            node=shutil.which("node", path=caller.environ.get("PATH")) is not None,
        )

    def source(self) -> Source:
        """Return the source that reads the file to import."""
        return Source(Path(self.file), self.shown, Path(self.cwd), node=self.node)


class ConversionResult(Struct, frozen=True):
    """The result of a conversion.

    Attributes:
        folders: folders of the suites, relative to the output folder; empty for the output folder itself.
        files: contents of the files to write, by path relative to the output folder.
        rows: rows of the import report, one for each assertion and setting.
        read: files that were read because the imported file refers to them.
        problems: reasons why the conversion failed; empty if it succeeded.
        proof: input of `--prove`; None without this option.
    """

    folders: Sequence[str] = ()
    files: Mapping[str, str] = {}
    rows: Sequence[Row] = ()
    read: Sequence[str] = ()
    problems: Sequence[str] = ()
    proof: Proof | None = None


def convert_in_process(request: Conversion, environ: Mapping[str, str], seconds: float = SECONDS) -> ConversionResult:
    """Convert a file, or build the input of `--prove`, in a worker process with limits on time and memory.

    Args:
        request: the file and the options.
        environ: the job's environment, of which the worker only gets the variables that an interpreter needs.
        seconds: time limit in seconds.

    Raises:
        ConfigurationError: the file cannot be converted, there are no verdicts to compare, or the conversion exceeds
            its limit of time or memory.
    """
    # The process that converts does not need these modules.
    from holodeck_action.record.agent_errors import AgentError
    from holodeck_action.targets.templates.computation_pool import ComputationPool
    from holodeck_action.text.redaction import Redactor
    from holodeck_action.text.secrets import environment_secrets

    async def compute() -> Any:
        redact = Redactor(environment_secrets(environ)).text
        computing = ComputationPool(environ, redact, seconds, __name__)
        try:
            given = {"request": msgspec.to_builtins(request)}
            return await computing.call("convert", given, label=f"{request.shown}: the import", code="import")
        finally:
            await computing.close()

    try:
        made = msgspec.convert(asyncio.run(compute()), ConversionResult)
    except AgentError as error:
        raise ConfigurationError([error.message]) from None
    if made.problems:
        raise ConfigurationError(made.problems)
    return made


def convert(request: Mapping[str, Any], seconds: float) -> str:
    """Convert a file in the worker process.

    Args:
        request: a `Conversion` as JSON data.
        seconds: time limit, which the caller enforces.

    Returns:
        A `ConversionResult` as the JSON `{"value": …}`.
    """
    return msgspec.json.encode({"value": _convert_file(msgspec.convert(request, Conversion))}).decode()


def _convert_file(request: Conversion) -> ConversionResult:
    # The calling process does not need these modules.
    from holodeck_action.extensions.importers.readback import readback_problems

    source = request.source()
    try:
        if request.answers is not None:
            from holodeck_action.extensions.importers.promptfoo.proving import build_proof

            return ConversionResult(proof=build_proof(source, Path(request.folder), request.answers))
        found = _converted(request, source)
        files: dict[str, str] = {}
        changed: list[str] = []
        for suite in found.suites:
            made = files_of(suite)
            changed += readback_problems(suite, made)
            files |= made
    except ConfigurationError as error:
        return ConversionResult(problems=error.lines)
    except RecursionError:
        return ConversionResult(problems=[f"{request.shown}: its values are nested too deeply"])
    if changed:
        return ConversionResult(problems=changed)
    folders = [suite.folder for suite in found.suites]
    return ConversionResult(folders, files, merge_rows(found.rows), [os.fspath(path) for path in source.files_read])


def _converted(request: Conversion, source: Source) -> ImportResult:
    if request.program == "promptfoo":
        from holodeck_action.extensions.importers.promptfoo import convert as promptfoo

        return promptfoo.convert(source, Path(request.folder), allow_missing=request.allow_missing)
    if request.program == "evals":
        from holodeck_action.extensions.importers import evals

        return evals.convert(source, Path(request.folder), allow_missing=request.allow_missing)
    if request.program == "inspect":
        from holodeck_action.extensions.importers.inspect_tasks import convert as inspect_tasks

        return inspect_tasks.convert(source, request.recorded, allow_missing=request.allow_missing)
    from holodeck_action.extensions.importers.deepeval import convert as deepeval

    return deepeval.convert(source, request.recorded, allow_missing=request.allow_missing)
