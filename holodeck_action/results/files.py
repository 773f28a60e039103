"""`results.json` and `verdict.json`: written atomically, read strictly."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

from holodeck_action.results.adapters import adapter
from holodeck_action.results.canonical import head_of
from holodeck_action.results.record import SCHEMA_VERSION, CaseRecord, Record, TrialRecord, TurnRecord
from holodeck_action.results.verdict import CaseVerdict, CombinedVerdict, Verdict

T = TypeVar("T")

RESULTS_FILE = "results.json"
VERDICT_FILE = "verdict.json"


class RecordError(Exception):
    """A results file cannot be used; the message is one sentence naming the file and the way out."""


def write_record(path: Path, record: Record) -> None:
    """Write a record to `path`, replacing it in one step.

    Raises:
        OSError: the file cannot be written; what stood there before is untouched.
    """
    write_atomically(path, _lines(head_of(record), adapter(CaseRecord), record.cases))


def write_verdict(path: Path, verdict: Verdict) -> None:
    """Write a verdict to `path`, one case per line, replacing it in one step.

    Raises:
        OSError: the file cannot be written; what stood there before is untouched.
    """
    head = adapter(Verdict).dump_python(replace(verdict, cases=()), mode="json")
    del head["cases"]
    write_atomically(path, _lines(head, adapter(CaseVerdict), verdict.cases))


def write_combined(path: Path, verdict: CombinedVerdict) -> None:
    """Write the verdict of several suites to `path`, replacing it in one step.

    Raises:
        OSError: the file cannot be written; what stood there before is untouched.
    """
    write_atomically(path, [adapter(CombinedVerdict).dump_json(verdict, indent=1), b"\n"])


def read_record(path: Path) -> Record:
    """Read and validate a results file.

    Raises:
        RecordError: the file is missing, not JSON, of another schema version, or not a record.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}; give the results.json of a run") from error
    try:
        version = _schema_version(content)
        if version not in (1, SCHEMA_VERSION):
            raise RecordError(
                f"{path}: schema_version is {version!r}, this version reads 1 to {SCHEMA_VERSION}; "
                "use the version of holodeck-action that wrote it"
            )
        record = adapter(Record).validate_json(content)
        if version == 1:
            record = _from_version_1(record)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise RecordError(f"{path}: not a results file: {field}: {first['msg']}") from error
    except ValueError as error:
        raise RecordError(f"{path}: not a results file: {error}") from error
    if len({case.id for case in record.cases}) < len(record.cases):
        raise RecordError(f"{path}: not a results file: two of its cases have the same id")
    return record


def _from_version_1(record: Record) -> Record:
    """Take an empty list of tool calls for unknown, which it may have stood for: only the suite's own model knew."""
    told = record.provenance.target.startswith("model:")

    def known(turn: TurnRecord) -> TurnRecord:
        if turn.tool_invocations or (told and turn.response is not None):
            return turn
        return replace(turn, tool_invocations=None)

    def with_turns(trial: TrialRecord) -> TrialRecord:
        return replace(trial, turns=tuple(map(known, trial.turns)))

    cases = tuple(replace(case, trials=tuple(map(with_turns, case.trials))) for case in record.cases)
    return replace(record, schema_version=SCHEMA_VERSION, cases=cases)


def write_atomically(path: Path, chunks: Iterable[bytes], *, lasting: bool = True) -> None:
    """Write `chunks` beside `path`, flush them to disk and move them into place.

    Args:
        path: the file.
        chunks: its content.
        lasting: False leaves it to the system when they reach the disk: for what can be had again.

    Raises:
        OSError: nothing was replaced.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(chunks)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        # mkstemp is private to its user; results are for everyone who may read the folder.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _lines(head: Mapping[str, Any], kind: TypeAdapter[T], cases: Iterable[T]) -> Iterator[bytes]:
    """Yield one JSON object with one case per line: large files stream, and diff well."""
    yield json.dumps(head, ensure_ascii=False, allow_nan=False, indent=1).removesuffix("\n}").encode()
    yield b',\n "cases": ['
    for position, case in enumerate(cases):
        yield (b",\n" if position else b"\n") + kind.dump_json(case)
    yield b"\n ]\n}\n"


def _schema_version(content: bytes) -> Any:
    try:
        document = json.loads(content, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not valid JSON ({error})") from error
    if not isinstance(document, dict) or "suite" not in document or "schema_version" not in document:
        raise ValueError("it has no schema_version and no suite")
    return document["schema_version"]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}")
