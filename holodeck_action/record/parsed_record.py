"""Results files parsed: as this version writes them, or as another one or another program does."""

from __future__ import annotations

import os
import re
from typing import Any

from msgspec import ValidationError
from msgspec.structs import replace

from holodeck_action.record.record import FIRST_VERSION, SCHEMA_VERSION, Record, TrialRecord, TurnRecord
from holodeck_action.record.serialization import JSON_ERRORS, from_json, problem_of
from holodeck_action.record.stored_cases import RecordError
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.json_values import ConstantError, parse_json

_START = re.compile(rb'\{\r?\n "schema_version": %d,' % SCHEMA_VERSION)


def parsed_once(content: bytes) -> Record | None:
    """Return the record of a file that looks as this version writes it; None for others, which take a closer look."""
    if _START.match(content) is None:
        return None
    try:
        return _record(content)
    except JSON_ERRORS:
        return None


def examined(content: bytes, path: os.PathLike[str] | str) -> tuple[Record, bool]:
    """Return a record of either version, and whether it is of a version before digests; see `parse_results`.

    Args:
        content: of the file.
        path: what to call it.

    Raises:
        RecordError: it is neither.
    """
    try:
        document = _document(content)
        version = document["schema_version"]
        if version not in (FIRST_VERSION, SCHEMA_VERSION) or isinstance(version, bool):
            raise RecordError(
                f"{path}: schema_version is {version!r}, this version reads {FIRST_VERSION} to {SCHEMA_VERSION}; "
                "use the version of holodeck-action that wrote it"
            )
        record = _record(content)
    except ValidationError as error:
        raise RecordError(f"{path}: not a results file: {problem_of(error)}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not a results file: {error}") from error
    if version == FIRST_VERSION:
        return _from_version_1(record), not {"digest", "chosen"} & document.keys()
    return record, False


def _record(content: bytes) -> Record:
    record = from_json(content, Record)
    return replace(record, cases=tuple(record.cases))


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


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = parse_json(Foreign(content).text())
    except ConstantError as error:
        raise ValueError(f"it holds {error.name}") from error
    except ValueError as error:
        raise ValueError(f"not valid JSON ({error})") from error
    if not isinstance(document, dict) or "suite" not in document or "schema_version" not in document:
        raise ValueError("it has no schema_version and no suite")
    return document
