"""The canonical form of a record: the record without times, durations and random ids.

The same inputs give the same canonical bytes on any machine at any concurrency. Scores are rounded to 12 significant
digits, because Python 3.12 sums floats more exactly than 3.11, which changes the libraries' scores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from itertools import chain
from typing import Any

from msgspec.structs import replace

from holodeck_action.record.record import CaseRecord, Record, SelectedCases
from holodeck_action.record.serialization import to_plain

VOLATILE_RECORD = ("run",)
VOLATILE_TRIAL = ("timing",)
VOLATILE_TURN = ("timing",)
VOLATILE_TOOL_INVOCATION = ("duration_ms",)
VOLATILE_EVALUATION = ("evaluation_id", "target_event_id", "timestamp", "duration_ms", "cached")


def canonical_json(record: Record) -> bytes:
    """Serialise a record without its volatile fields: keys sorted, no spaces, UTF-8, one case per line."""
    cases = b",".join(b"\n" + _canonical_case(case) for case in record.cases)
    return _BEGINNING + cases + _canonical_end(record)


def record_digest(record: Record) -> str:
    """Return the sha256 hex digest of the canonical form."""
    hashed = hashlib.sha256(_BEGINNING)
    for number, case in enumerate(record.cases):
        hashed.update((b",\n" if number else b"\n") + _canonical_case(case))
    hashed.update(_canonical_end(record))
    return hashed.hexdigest()


def chosen_cases(ids: Iterable[str]) -> SelectedCases:
    """Return the number and digest of the ids of the selected cases, so that missing cases can be detected."""
    names = [*ids]
    return SelectedCases(len(names), hashlib.sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest())


def fields_without_cases(record: Record) -> dict[str, Any]:
    """Return the record without its cases as JSON values; the fields about the base are omitted if there is no base.

    Records of runs without a base therefore have the same bytes in every version of this package.
    """
    head: dict[str, Any] = to_plain(replace(record, cases=()))
    del head["cases"]
    if record.baseline is None:
        del head["baseline"]
    if record.run.base_digest is None:
        del head["run"]["base_digest"]
    return head


_BEGINNING = b'{"cases":['


def _canonical_end(record: Record) -> bytes:
    if record.certain is not None:
        # How many more cases were answered depends on the time.
        record = replace(record, certain=replace(record.certain, not_counted={}))
    return b'],"head":' + _dumps(_drop_keys(fields_without_cases(record), VOLATILE_RECORD)) + b"}\n"


def _canonical_case(case: CaseRecord) -> bytes:
    values = to_plain(case)
    for trial in (*values["trials"], *values.get("confirmation", ())):
        _drop_keys(trial, VOLATILE_TRIAL)
        for turn in trial["turns"]:
            _drop_keys(turn, VOLATILE_TURN)
            for call in turn["tool_invocations"] or ():
                _drop_keys(call, VOLATILE_TOOL_INVOCATION)
        parts = (trial.get("evaluations", ()), *(turn["evaluations"] for turn in trial["turns"]))
        for evaluation in chain.from_iterable(parts):
            _drop_keys(evaluation, VOLATILE_EVALUATION)
            evaluation["score"] = _round_floats(evaluation["score"])
            evaluation["metadata"] = _round_floats(evaluation["metadata"])
    return _dumps(values)


def _round_floats(value: Any) -> Any:
    kind = type(value)
    if kind is float:
        return float(f"{value:.12g}")
    if kind is dict:
        return {key: _round_floats(item) for key, item in value.items()}
    return [_round_floats(item) for item in value] if kind is list or kind is tuple else value


def _drop_keys(mapping: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    for key in keys:
        mapping.pop(key, None)
    return mapping


def _dumps(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
