"""The conversion of an imported file, which is done in a process with limits: no file can hold up the command.

Nothing of an imported file is parsed, rendered or matched in our own process, and the secrets of the job are not in
the other one. What comes back is texts and an account of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from holodeck_action.extensions.importers.accounting import Row, merged
from holodeck_action.extensions.importers.proof import Proof
from holodeck_action.extensions.importers.source import Source
from holodeck_action.extensions.importers.written import Imported, files_of
from holodeck_action.suite.configuration_errors import ConfigurationError

SECONDS = 120.0
"""Longest time that an import may take."""


class Reader(Protocol):
    """Reads the file of another program."""

    def __call__(self, source: Source, out: Path, *, allow_missing: bool) -> Imported:
        """Return the suites for the absolute folder `out`.

        Raises:
            ConfigurationError: it is no such file.
        """


class Conversion(Struct, frozen=True):
    """What is to be converted.

    Attributes:
        program: `promptfoo` or `deepeval`.
        file: the file, absolute.
        shown: how the user wrote it.
        folder: where the suites go, absolute.
        cwd: the working folder, absolute.
        allow_missing: whether assertions without an equal are accepted.
        node: whether Node.js is on the PATH.
        answers: of a proof: texts that every assertion is given, too.
    """

    program: str
    file: str
    shown: str
    folder: str
    cwd: str
    allow_missing: bool
    node: bool = False
    answers: Sequence[str] = ()

    def source(self) -> Source:
        """Return the file."""
        return Source(Path(self.file), self.shown, Path(self.cwd), node=self.node)


class Converted(Struct, frozen=True):
    """What was converted.

    Attributes:
        folders: of the suites, relative to the output folder; empty for that folder itself.
        files: each one's path below the output folder, and its text.
        rows: what became of every assertion.
        read: the files that the imported one names and that were read.
        problems: why nothing was converted; empty if it was.
        proof: what both programs are to grade, where that was asked for.
    """

    folders: Sequence[str] = ()
    files: Mapping[str, str] = {}
    rows: Sequence[Row] = ()
    read: Sequence[str] = ()
    problems: Sequence[str] = ()
    proof: Proof | None = None


def converted(asked: Conversion, environ: Mapping[str, str], seconds: float = SECONDS) -> Converted:
    """Convert a file in a process with limits.

    Args:
        asked: the file.
        environ: the job's environment; the process sees only what an interpreter needs of it.
        seconds: longest time that it may take.

    Raises:
        ConfigurationError: it cannot be converted, or needs more time or memory than it may.
    """
    return _computed("convert", asked, environ, seconds)


def proved(asked: Conversion, environ: Mapping[str, str]) -> Proof:
    """Make what both programs are to grade, in a process with limits.

    Raises:
        ConfigurationError: as for `converted`, or there is nothing to compare.
    """
    made = _computed("make_proof", asked, environ, SECONDS).proof
    assert made is not None
    return made


def _computed(function: str, asked: Conversion, environ: Mapping[str, str], seconds: float) -> Converted:
    # Not needed inside the process.
    from holodeck_action.record.agent_errors import AgentError
    from holodeck_action.targets.templates.computing import Computing
    from holodeck_action.text.redaction import Redactor
    from holodeck_action.text.secrets import environment_secrets

    async def compute() -> Any:
        redact = Redactor(environment_secrets(environ)).text
        computing = Computing(environ, redact, seconds, __name__)
        try:
            given = msgspec.to_builtins(asked)
            return await computing.call(function, {"asked": given}, what=f"{asked.shown}: the import", code="import")
        finally:
            await computing.close()

    try:
        made = msgspec.convert(asyncio.run(compute()), Converted)
    except AgentError as error:
        raise ConfigurationError([error.message]) from None
    if made.problems:
        raise ConfigurationError(made.problems)
    return made


def make_proof(asked: Mapping[str, Any], seconds: float) -> str:
    """Return a proof for a `Conversion`, as `convert` does."""
    # As for a conversion, nothing that reads the file is imported by whoever asks for it.
    from holodeck_action.extensions.importers.promptfoo.proving import proof_of

    given = msgspec.convert(asked, Conversion)
    try:
        made = Converted(proof=proof_of(given.source(), Path(given.folder), given.answers))
    except ConfigurationError as error:
        made = Converted(problems=error.lines)
    except RecursionError:
        made = Converted(problems=[f"{given.shown}: something in it is nested too deeply"])
    return msgspec.json.encode({"value": made}).decode()


def convert(asked: Mapping[str, Any], seconds: float) -> str:
    """Return what a `Conversion` gives, as `{value}` in JSON; called in the process, which ends after `seconds`."""
    return msgspec.json.encode({"value": _convert(msgspec.convert(asked, Conversion))}).decode()


def _convert(asked: Conversion) -> Converted:
    # Not needed to ask for a conversion.
    from holodeck_action.extensions.importers.readback import problems_of

    source = asked.source()
    try:
        found = _reader(asked.program)(source, Path(asked.folder), allow_missing=asked.allow_missing)
        files: dict[str, str] = {}
        changed: list[str] = []
        for suite in found.suites:
            made = files_of(suite)
            changed += problems_of(suite, made)
            files |= made
    except ConfigurationError as error:
        return Converted(problems=error.lines)
    except RecursionError:
        return Converted(problems=[f"{asked.shown}: something in it is nested too deeply"])
    if changed:
        return Converted(problems=changed)
    folders = [suite.folder for suite in found.suites]
    return Converted(folders, files, merged(found.rows), [os.fspath(path) for path in source.read])


def _reader(program: str) -> Reader:
    """Return what reads a file of this program."""
    if program == "promptfoo":
        from holodeck_action.extensions.importers.promptfoo import convert as promptfoo

        return promptfoo.convert
    from holodeck_action.extensions.importers.deepeval import convert as deepeval

    return deepeval.convert
