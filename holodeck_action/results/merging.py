"""The records of all shards of a run put together: the record that the run would have written in one piece."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from holodeck_action.results.answer_notices import about_answers
from holodeck_action.results.base_results import results_of
from holodeck_action.results.record import CaseRecord, ModelCalls, Record, RunInfo, Shard
from holodeck_action.results.result_files import BaseResults
from holodeck_action.text.plain import one_line

_SHOWN = 5
_AGAIN = "run all shards of one run"


class MergeError(Exception):
    """Records are not the shards of one run; `reasons` name each difference, one sentence each with the way out."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True, slots=True)
class ShardResults:
    """The results of one shard: what to call their file, what it holds and what that was compared with."""

    name: str
    record: Record
    base: BaseResults | None = None

    @property
    def shard(self) -> Shard:
        """Which part it is; only for those that are one."""
        assert self.record.run.shard is not None
        return self.record.run.shard


def merge_shards(parts: Sequence[ShardResults]) -> tuple[Record, BaseResults | None]:
    """Put the shards of one run of one suite together.

    Args:
        parts: one or more results, in any order.

    Returns:
        The record of the whole run, with its shards' sums and extremes where it tells of the run, and the results that
        it is compared with. Its canonical form is that of the same run in one piece.

    Raises:
        MergeError: they are not all shards of one run.
    """
    _check_set(parts)
    ordered = sorted(parts, key=lambda part: part.shard.number)
    record, base = _merged(ordered, all_run=True), _base(ordered)
    if base is not None:
        record = replace(record, run=replace(record.run, base_digest=base.results.digest))
    return record, base


def _check_set(parts: Sequence[ShardResults]) -> None:
    """Refuse what is no shard, and shards that are missing, doubled, or of another number.

    Raises:
        MergeError: with all of these.
    """
    whole = [
        f"{part.name}: is no shard, but a whole run; leave it out" for part in parts if part.record.run.shard is None
    ]
    if whole:
        raise MergeError(whole)
    count = parts[0].shard.count
    problems = [
        f"{part.name}: is shard {part.shard}, but {parts[0].name} is {parts[0].shard}; {_AGAIN}"
        for part in parts
        if part.shard.count != count
    ]
    if problems:
        raise MergeError(problems)
    first: dict[int, str] = {}
    for part in parts:
        if part.shard.number in first:
            problems.append(f"{part.name}: is shard {part.shard}, as is {first[part.shard.number]}; give one of them")
        first.setdefault(part.shard.number, part.name)
    missing = [number for number in range(1, count + 1) if number not in first]
    if missing:
        named = ", ".join(f"{number}/{count}" for number in missing[:_SHOWN]) + (" …" if len(missing) > _SHOWN else "")
        problems.append(f"shard {named} is missing; run it, and give its folder too")
    if problems:
        raise MergeError(problems)


_SAME: tuple[tuple[str, Callable[[Record], Any]], ...] = (
    ("suite", lambda record: record.suite.digest),
    ("version of holodeck-action", lambda record: record.provenance.tool_version),
    ("schema version", lambda record: record.schema_version),
    ("commit", lambda record: record.provenance.commit),
    ("target", lambda record: record.provenance.target),
    ("filters of cases", lambda record: record.provenance.filters),
    ("gates", lambda record: record.gates),
    ("quarantine", lambda record: record.quarantine),
    ("trials.stop_when_decided", lambda record: record.stop_when_decided),
    ("selected cases", lambda record: record.chosen),
    ("settings of the comparison", lambda record: None if record.baseline is None else record.baseline.settings),
    ("base", lambda record: None if record.baseline is None else _base_of(record)),
)
"""What the shards of one run have in common, and what to call it."""


def _base_of(record: Record) -> Any:
    base = None if record.baseline is None else record.baseline.base
    return None if base is None else (base.source, base.commit)


def _check_same(parts: Sequence[ShardResults]) -> None:
    """Refuse shards that differ in what all of one run have in common.

    Raises:
        MergeError: with each difference to the first shard.
    """
    first = parts[0]
    problems = [
        f"{part.name}: its {what} is not that of {first.name}: "
        f"{_told(of(part.record))}, not {_told(of(first.record))}; {_AGAIN}"
        for part in parts[1:]
        for what, of in _SAME
        if of(part.record) != of(first.record)
    ]
    problems = problems or [*_differing_judges(parts)]
    if problems:
        raise MergeError(problems)


def _told(value: object) -> str:
    return one_line("none" if value is None else str(value), 80)


def _differing_judges(parts: Sequence[ShardResults]) -> Iterator[str]:
    seen: dict[str, ShardResults] = {}
    for part in parts:
        for metric, found in part.record.configurations.items():
            before = seen.setdefault(metric, part)
            if before.record.configurations[metric] != found:
                name = one_line(metric, 80)
                yield f"{part.name}: judges or settings of {name} are not those of {before.name}; {_AGAIN}"


def _cases(parts: Sequence[ShardResults], *, all_run: bool) -> tuple[CaseRecord, ...]:
    """Return each case with the trials of the shard that ran it.

    Raises:
        MergeError: a case is another one in another shard, was run by two, or by none though all were done.
    """
    first = parts[0]
    cases: list[CaseRecord] = []
    problems: list[str] = []
    all_run = all_run and all(part.shard.stopped is None for part in parts)
    for column in zip(*(part.record.cases for part in parts), strict=True):
        bare = replace(column[0], trials=())
        title = one_line(column[0].name or column[0].id, 80)
        problems += (
            f"{part.name}: the case {title} is not that of {first.name}; {_AGAIN}"
            for part, case in zip(parts[1:], column[1:], strict=True)
            if replace(case, trials=()) != bare
        )
        ran = [(part, case) for part, case in zip(parts, column, strict=True) if case.trials]
        if len(ran) > 1:
            problems.append(f"{ran[1][0].name}: the case {title} was run by shard {ran[0][0].shard}, too; {_SPLIT}")
        elif not ran and all_run:
            problems.append(f"the case {title} was run by no shard; {_SPLIT}")
        cases.append(ran[0][1] if ran else column[0])
    if problems:
        more = len(problems) - _SHOWN
        raise MergeError(problems[:_SHOWN] + ([f"and {more} more cases differ"] if more > 0 else []))
    return tuple(cases)


_SPLIT = "the shards were cut differently, as their bases or versions differ; run all of them again"


def _merged(parts: Sequence[ShardResults], *, all_run: bool) -> Record:
    _check_same(parts)
    records, cases = [part.record for part in parts], _cases(parts, all_run=all_run)
    first = min(records, key=lambda record: record.run.started_at)
    shard = first.run.shard
    assert shard is not None
    before, after = first.notices[: shard.conditions], first.notices[shard.conditions :]
    ended = [f"shard {record.run.shard}: {record.ended_early}" for record in records if record.ended_early is not None]
    found = {name: value for record in records for name, value in record.configurations.items()}
    return replace(
        first,
        cases=cases,
        run=_run([record.run for record in records], first.run),
        stopped="; ".join(ended) or None,
        notices=(*before, *about_answers(cases, shard.max_tokens), *after),
        configurations={name: found[name] for name in sorted(found)},
    )


def _run(runs: Sequence[RunInfo], first: RunInfo) -> RunInfo:
    started, finished = min(run.started_at for run in runs), max(run.finished_at for run in runs)
    lasted = datetime.fromisoformat(finished) - datetime.fromisoformat(started)
    calls = [run.model_calls for run in runs if run.model_calls is not None]
    return replace(
        first,
        finished_at=finished,
        duration_ms=1000 * lasted.total_seconds(),
        resumed_trials=sum(run.resumed_trials for run in runs),
        model_calls=_calls(calls) if calls else None,
        shard=None,
    )


def _calls(parts: Sequence[ModelCalls]) -> ModelCalls:
    tokens = [part.tokens for part in parts if part.tokens is not None]
    costs = [part.cost_usd for part in parts if part.cost_usd is not None]
    return ModelCalls(
        calls=sum(part.calls for part in parts),
        cached=sum(part.cached for part in parts),
        failed=sum(part.failed for part in parts),
        requests=sum(part.requests for part in parts),
        tokens=sum(tokens) if len(tokens) == len(parts) else None,
        cost_usd=math.fsum(costs) if len(costs) == len(parts) else None,
        reused=sum(part.reused for part in parts),
    )


def _base(parts: Sequence[ShardResults]) -> BaseResults | None:
    """Return what the run is compared with: the results that all shards found, or those that each ran a part of.

    Raises:
        MergeError: they are not those of one run.
    """
    bases = [(part, part.base) for part in parts if part.base is not None]
    if not bases:
        return None
    if len(bases) < len(parts):
        without = next(part.name for part in parts if part.base is None)
        raise MergeError([f"{without}: was compared with nothing, but {bases[0][0].name} was; {_AGAIN}"])
    if len({base.results.digest for _, base in bases}) == 1 and bases[0][1].results.record.run.shard is None:
        return bases[0][1]
    if any(base.results.record.run.shard is None for _, base in bases):
        raise MergeError([f"{bases[1][0].name}: was compared with other results than {bases[0][0].name}; {_AGAIN}"])
    run = [ShardResults(f"{part.name}, its base", base.results.record) for part, base in bases]
    # Cases that only the base has are run by no shard.
    return results_of(_merged(run, all_run=False))
