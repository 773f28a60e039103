"""`results.json` and `verdict.json`: written atomically, read strictly, and bound to each other by digests.

The last line of results.json is the SHA-256 of everything before it, which verdict.json repeats. It tells what was cut
short, edited or mixed up; it is no signature.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from holodeck_action.results.canonical import adapter, chosen_cases, head_of
from holodeck_action.results.disk import DISK, Disk, staged, write_atomically
from holodeck_action.results.history import HistoryLine, dump_line, parse_lines
from holodeck_action.results.record import FIRST_VERSION, SCHEMA_VERSION, Record, TrialRecord, TurnRecord
from holodeck_action.results.stored_cases import (
    INDEXED_FROM,
    RecordError,
    case_lines,
    check_weight,
    first_problem,
    indexed,
    refuse_constant,
)
from holodeck_action.results.verdict import CombinedVerdict, Verdict
from holodeck_action.results.verdict_file import VerdictFile, WrittenCase, verdict_head, written_cases
from holodeck_action.suite.checkout import Checkout

RESULTS_FILE = "results.json"
VERDICT_FILE = "verdict.json"
BASE_FOLDER = "base"
"""Where the results of the base are, beside those of the run that is compared with it."""
EARLIER_FILE = "earlier-runs.jsonl"
"""The earlier runs of a history, beside the results of the run that was added to it or only read it."""
EARLIER_RUNS = 50
"""So many of them: more than a trend shows, as some take no part."""
_EARLIER_BYTES = 8 * 1024 * 1024
_DIGEST = re.compile(rb',\n "digest": "([0-9a-f]{64})"\n}\s*\Z')
_RECORD_DIGEST = re.compile(rb',\n "record_digest": "([0-9a-f]{64})"\Z')
_START = re.compile(rb'\{\r?\n "schema_version": %d,' % SCHEMA_VERSION)
_END = b"\n}\n"
_LINE_BYTES = 128
_AGAIN = "use the file as the run wrote it"


@dataclass(frozen=True, slots=True)
class Results:
    """What a results file holds.

    Attributes:
        record: the run.
        digest: of the file; None where a version before digests wrote it.
        record_digest: of the canonical record; None where a version wrote it that did not tell it.
    """

    record: Record
    digest: str | None
    record_digest: str | None = None


@dataclass(frozen=True, slots=True)
class BaseResults:
    """The results of a base: the pieces of its file, each time they are asked for, and what it holds."""

    content: Iterable[bytes]
    results: Results


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside a run's results: those of its base (None: none), and the runs that its report shows."""

    base: BaseResults | None = None
    earlier: Sequence[HistoryLine] = ()


NOTHING_BESIDE = Beside()


def write_results(
    folder: Path,
    record: Record,
    verdict: Verdict,
    disk: Disk = DISK,
    beside: Beside = NOTHING_BESIDE,
) -> None:
    """Write a record and its verdict, which names the record's digest, into a folder, and what a report needs besides.

    The verdict is put in place last: where it stands, so do the results that it is about.

    Raises:
        OSError: one of them cannot be written; nothing was replaced unless the verdict alone is missing.
    """
    base, earlier = beside.base, beside.earlier
    if base is not None:
        below = folder / BASE_FOLDER
        below.mkdir(exist_ok=True)
        write_atomically(below / RESULTS_FILE, base.content, disk=disk)
    if earlier:
        write_atomically(folder / EARLIER_FILE, map(dump_line, earlier[-EARLIER_RUNS:]), disk=disk)
    sealed = Sealed(record, verdict.record_digest)
    results, judged = folder / RESULTS_FILE, folder / VERDICT_FILE
    with staged(results, sealed, disk) as new_results:
        bound = replace(verdict, results_digest=sealed.digest)
        with staged(judged, _verdict_lines(bound), disk) as new_verdict:
            disk.replace(new_results, results)
            disk.replace(new_verdict, judged)


def write_verdict(path: Path, verdict: Verdict, disk: Disk = DISK) -> None:
    """Write a verdict to `path`, one case per line, replacing it in one step.

    Raises:
        OSError: the file cannot be written; what stood there before is untouched.
    """
    write_atomically(path, _verdict_lines(verdict), disk=disk)


def write_combined(path: Path, verdict: CombinedVerdict, disk: Disk = DISK) -> None:
    """Write the verdict of several suites to `path`, replacing it in one step.

    Raises:
        OSError: the file cannot be written; what stood there before is untouched.
    """
    write_atomically(path, [adapter(CombinedVerdict).dump_json(verdict, indent=1), b"\n"], disk=disk)


def read_record(path: os.PathLike[str]) -> Record:
    """Read and validate a results file, see `read_results`."""
    return read_results(path).record


def read_results(path: os.PathLike[str], indexed_from: int = INDEXED_FROM) -> Results:
    """Read and validate a results file.

    Args:
        path: the file.
        indexed_from: bytes from which on its cases are read one by one.

    Raises:
        RecordError: the file is missing, not JSON, of another schema version, not a record, or not whole.
    """
    try:
        with open(path, "rb") as file:
            large = os.fstat(file.fileno()).st_size >= indexed_from
            found = indexed(file, os.fspath(path)) if large else None
        if found is not None:
            return Results(*found)
    except OSError:
        # What is wrong is told by who reads it as a whole.
        pass
    return parse_results(read_content(path), path)


def read_content(path: os.PathLike[str]) -> bytes:
    """Return the bytes of a results file.

    Raises:
        RecordError: it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: os.PathLike[str] | str, error: OSError) -> RecordError:
    """Say that a results file cannot be read."""
    return RecordError(f"{path}: cannot be read: {error.strerror}; give the results.json of a run")


def read_earlier(path: os.PathLike[str]) -> tuple[HistoryLine, ...]:
    """Return the earlier runs of which the report of a results file tells; what cannot be read is none."""
    file = Path(path).absolute().with_name(EARLIER_FILE)
    try:
        # An artifact may hold a pipe by that name, or a link to anything.
        content = b"" if file.is_symlink() else Checkout.anywhere(file.parent).read(EARLIER_FILE, _EARLIER_BYTES)
    except OSError:
        return ()
    return parse_lines(content, EARLIER_FILE).lines


def parse_results(content: bytes, path: os.PathLike[str] | str) -> Results:
    """Validate the content of a results file.

    Args:
        content: the file's bytes.
        path: what to call it.

    Raises:
        RecordError: it is not JSON, of another schema version, not a record, or not whole.
    """
    record = _parsed_once(content)
    unsealed = False
    if record is None:
        record, unsealed = _examined(content, path)
    if len({case.id for case in record.cases}) < len(record.cases):
        raise RecordError(f"{path}: not a results file: two of its cases have the same id")
    for case in record.cases:
        check_weight(case, str(path))
    if unsealed:
        return _without_digest(path, record)
    # Line ends may have been changed by a checkout.
    written = content.replace(b"\r\n", b"\n") if b"\r\n" in content else content
    found = _DIGEST.search(written)
    missing = _missing(record, written, found)
    if missing is not None or found is None:
        raise RecordError(f"{path}: is not whole: {missing}; {_AGAIN}")
    known = _RECORD_DIGEST.search(written[max(0, found.start() - _LINE_BYTES) : found.start()])
    return Results(record, found[1].decode(), None if known is None else known[1].decode())


def _parsed_once(content: bytes) -> Record | None:
    """Return the record of a file that looks as this version writes it; None for any other, which takes a closer look.

    JSON has no NaN and no Infinity, which only the closer look tells from these words in a text.
    """
    if _START.match(content) is None or b"NaN" in content or b"Infinity" in content:
        return None
    try:
        return adapter(Record).validate_json(content)
    except ValidationError:
        return None


def _examined(content: bytes, path: os.PathLike[str] | str) -> tuple[Record, bool]:
    """Return a record of either version, and whether it is of a version before digests; see `parse_results`."""
    try:
        document = _document(content)
        version = document["schema_version"]
        if version not in (FIRST_VERSION, SCHEMA_VERSION) or isinstance(version, bool):
            raise RecordError(
                f"{path}: schema_version is {version!r}, this version reads {FIRST_VERSION} to {SCHEMA_VERSION}; "
                "use the version of holodeck-action that wrote it"
            )
        record = adapter(Record).validate_json(content)
    except ValidationError as error:
        raise RecordError(f"{path}: not a results file: {first_problem(error)}") from error
    except ValueError as error:
        raise RecordError(f"{path}: not a results file: {error}") from error
    if version == FIRST_VERSION:
        return _from_version_1(record), not {"digest", "chosen"} & document.keys()
    return record, False


def _without_digest(path: os.PathLike[str] | str, record: Record) -> Results:
    """Accept a record of the first version, which cannot show that it is whole, with a notice."""
    if not record.cases:
        raise RecordError(f"{path}: is not whole: it holds no case, and no digest that would show that it held none")
    notice = f"the results are of schema version {FIRST_VERSION}, without a digest: nothing shows that they are whole"
    return Results(replace(record, notices=(*record.notices, notice)), None)


def _from_version_1(record: Record) -> Record:
    """Take an empty list of tool calls for unknown, which it may have stood for: only the suite's own model knew."""
    own_model = record.provenance.target.startswith("model:")

    def known(turn: TurnRecord) -> TurnRecord:
        if turn.tool_invocations or (own_model and turn.response is not None):
            return turn
        return replace(turn, tool_invocations=None)

    def with_turns(trial: TrialRecord) -> TrialRecord:
        return replace(trial, turns=tuple(map(known, trial.turns)))

    cases = tuple(replace(case, trials=tuple(map(with_turns, case.trials))) for case in record.cases)
    return replace(record, schema_version=SCHEMA_VERSION, cases=cases)


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


class Sealed:
    """The pieces of a results file, made each time they are asked for; `digest` is known at their end."""

    def __init__(self, record: Record, record_digest: str) -> None:
        self.digest, self.record_digest = "", record_digest
        self._record = record

    def __iter__(self) -> Iterator[bytes]:
        lines = _lines(head_of(self._record), case_lines(self._record.cases))
        hashed = hashlib.sha256()
        for chunk in chain(lines, [f',\n "record_digest": "{self.record_digest}"'.encode()]):
            hashed.update(chunk)
            yield chunk
        self.digest = hashed.hexdigest()
        yield f',\n "digest": "{self.digest}"'.encode()
        yield _END


def _verdict_lines(verdict: Verdict) -> Iterator[bytes]:
    head = adapter(VerdictFile).dump_python(verdict_head(verdict), mode="json")
    del head["cases"]
    yield from _lines(head, map(adapter(WrittenCase).dump_json, written_cases(verdict.cases)))
    yield _END


def _lines(head: Mapping[str, Any], cases: Iterable[bytes]) -> Iterator[bytes]:
    """Yield one JSON object with one case per line, all but its end: large files stream, and diff well."""
    yield json.dumps(head, ensure_ascii=False, allow_nan=False, indent=1).removesuffix("\n}").encode()
    yield b',\n "cases": ['
    for position, case in enumerate(cases):
        yield (b",\n" if position else b"\n") + case
    yield b"\n ]"


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content, parse_constant=refuse_constant)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not valid JSON ({error})") from error
    if not isinstance(document, dict) or "suite" not in document or "schema_version" not in document:
        raise ValueError("it has no schema_version and no suite")
    return document


def result_schema(document: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file that a command writes, such as `results`, or of its part."""
    # No run needs them all.
    from holodeck_action.results.comparison_report import ComparisonReport
    from holodeck_action.results.honeyhive import EvaluationBatch, HoneyHiveExport, MultiEvaluationResult
    from holodeck_action.results.judge_card import JudgeCard
    from holodeck_action.results.report_views import Report

    documents: dict[str, Any] = {
        "results": Record,
        "verdict": VerdictFile,
        "report": Report,
        "comparison": ComparisonReport,
        "judge-card": JudgeCard,
        "history": HistoryLine,
        "honeyhive": HoneyHiveExport,
        "evaluation-batch": EvaluationBatch,
        "multi-evaluation-result": MultiEvaluationResult,
    }
    made = TypeAdapter(documents[document]).json_schema(mode="serialization")
    if document == "results":
        made["properties"]["digest"] = {
            "description": "SHA-256 of the file up to this line.",
            "pattern": "^[0-9a-f]{64}$",
            "type": "string",
        }
        made["properties"]["record_digest"] = {
            "description": "SHA-256 of the canonical form of the record.",
            "pattern": "^[0-9a-f]{64}$",
            "type": "string",
        }
        made["required"].append("digest")
    title = "a line of history.jsonl" if document == "history" else f"{document}.json"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **made}
