"""The canonical form of a record: what is left when times, durations and random ids are taken out.

The same inputs give the same canonical bytes on any machine at any concurrency. Scores are rounded to
12 significant digits, because Python 3.12 sums floats more exactly than 3.11, and the libraries' scores follow it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from holodeck_action.results.record import CaseRecord, Chosen, Record

VOLATILE_RECORD = ("run",)
VOLATILE_TRIAL = ("timing",)
VOLATILE_TURN = ("timing",)
VOLATILE_TOOL_INVOCATION = ("duration_ms",)
VOLATILE_EVALUATION = ("evaluation_id", "target_event_id", "timestamp", "duration_ms", "cached")

_T = TypeVar("_T")


def adapter(kind: type[_T]) -> TypeAdapter[_T]:
    """Return what reads and writes values of a dataclass or model as JSON, made when first used.

    Making it takes longer than most of a start-up.
    """
    return _adapter(cast(Hashable, kind))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def canonical_json(record: Record) -> bytes:
    """Serialise a record without its volatile fields: sorted keys, no white space, UTF-8, one trailing newline."""
    return b"".join(_chunks(record))


def record_digest(record: Record) -> str:
    """Return the sha256 hex digest of the canonical form."""
    digest = hashlib.sha256()
    for chunk in _chunks(record):
        digest.update(chunk)
    return digest.hexdigest()


def chosen_cases(ids: Iterable[str]) -> Chosen:
    """Return what a record says of its cases, so that none can be lost unseen."""
    found = list(ids)
    return Chosen(len(found), hashlib.sha256("\n".join(found).encode("utf-8", "surrogatepass")).hexdigest())


def head_of(record: Record) -> dict[str, Any]:
    """Return the record as JSON values without its cases, and without what only a comparison adds where there is none.

    Records of runs that are compared with nothing have the same bytes in every version.
    """
    head: dict[str, Any] = adapter(Record).dump_python(replace(record, cases=()), mode="json")
    del head["cases"]
    if record.baseline is None:
        del head["baseline"]
    if record.run.base_digest is None:
        del head["run"]["base_digest"]
    return head


def _chunks(record: Record) -> Iterator[bytes]:
    each = adapter(CaseRecord)
    yield b'{"cases":['
    for position, case in enumerate(record.cases):
        yield (b",\n" if position else b"\n") + _dumps(_canonical_case(each.dump_python(case, mode="json")))
    yield b'],"head":' + _dumps(_without(head_of(record), VOLATILE_RECORD)) + b"}\n"


def _canonical_case(case: dict[str, Any]) -> dict[str, Any]:
    for trial in case["trials"]:
        _without(trial, VOLATILE_TRIAL)
        for turn in trial["turns"]:
            _without(turn, VOLATILE_TURN)
            for call in turn["tool_invocations"] or ():
                _without(call, VOLATILE_TOOL_INVOCATION)
            for evaluation in turn["evaluations"]:
                _without(evaluation, VOLATILE_EVALUATION)
                evaluation["score"] = _rounded(evaluation["score"])
                evaluation["metadata"] = _rounded(evaluation["metadata"])
    return case


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value


def _without(mapping: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    for key in keys:
        mapping.pop(key, None)
    return mapping


def _dumps(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
