"""Merging the records of all shards into the record of the whole run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.record.answer_notices import answer_notices
from holodeck_action.record.base_results import make_base_results
from holodeck_action.record.closure import merge_closures
from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.record.record import CaseRecord, CertainEnd, ModelCalls, Record, RunInfo, Shard
from holodeck_action.record.result_files import BaseResults
from holodeck_action.record.serialization import to_plain
from holodeck_action.text.plain import one_line

_SHOWN = 5
_RUN_AGAIN = "run all shards of one run"
_NO_INPUTS_RECORDED = "The shards do not record which code and files they were run with."


class MergeError(Exception):
    """The records are not the shards of one run; `reasons` has one sentence for each difference, with a remedy."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


class ShardResults(Struct, frozen=True):
    """The results of one shard: the name of its file, its record, and the results of its base."""

    name: str
    record: Record
    base: BaseResults | None = None

    @property
    def shard(self) -> Shard:
        """The record's shard. Raises AssertionError for the record of a whole run."""
        assert self.record.run.shard is not None
        return self.record.run.shard


def merge_shards(shards: Sequence[ShardResults]) -> tuple[Record, BaseResults | None]:
    """Merge the shards of one run of one suite.

    Args:
        shards: the results of the shards, one or more in any order.

    Returns:
        The record of the whole run, and the results of its base. In the record, `run` has the sums, the earliest start
        and the latest end of the shards. Its canonical form is the same as if the run had not been split.

    Raises:
        MergeError: the results are not all shards of one run.
    """
    _check_shards(shards)
    ordered = sorted(shards, key=lambda part: part.shard.number)
    record, base = _merge_records(ordered, complete=True), _merge_bases(ordered)
    if base is not None:
        record = replace(record, run=replace(record.run, base_digest=base.results.digest))
    return record, base


def _check_shards(shards: Sequence[ShardResults]) -> None:
    """Check that each shard of the run is present exactly once, and that all agree on the number of shards.

    Raises:
        MergeError: a result is of a whole run, or shards are missing, doubled or of different counts.
    """
    whole = [
        f"{part.name}: is not a shard but a whole run; leave it out" for part in shards if part.record.run.shard is None
    ]
    if whole:
        raise MergeError(whole)
    count = shards[0].shard.count
    problems = [
        f"{part.name}: is shard {part.shard}, but {shards[0].name} is {shards[0].shard}; {_RUN_AGAIN}"
        for part in shards
        if part.shard.count != count
    ]
    if problems:
        raise MergeError(problems)
    first: dict[int, str] = {}
    for part in shards:
        if part.shard.number in first:
            problems.append(
                f"{part.name}: is shard {part.shard}, as is {first[part.shard.number]}; give only one of them"
            )
        first.setdefault(part.shard.number, part.name)
    missing = [number for number in range(1, count + 1) if number not in first]
    if missing:
        named = ", ".join(f"{number}/{count}" for number in missing[:_SHOWN]) + (" …" if len(missing) > _SHOWN else "")
        problems.append(f"shard {named} is missing; run it, and give its folder too")
    if problems:
        raise MergeError(problems)


_SHARED_FACTS: tuple[tuple[str, Callable[[Record], Any]], ...] = (
    ("suite is", lambda record: record.suite.digest),
    ("version of holodeck-action is", lambda record: record.provenance.tool_version),
    ("schema version is", lambda record: record.schema_version),
    ("commit is", lambda record: record.provenance.commit),
    ("target is", lambda record: record.provenance.target),
    ("filters of cases are", lambda record: record.provenance.filters),
    ("gates are", lambda record: record.gates),
    ("quarantined cases are", lambda record: {entry.case: entry for entry in record.quarantine}),
    ("setting trials.stop_when_decided is", lambda record: record.stop_when_decided),
    ("selected cases are", lambda record: record.chosen),
    (
        "settings of the comparison are",
        lambda record: None if record.baseline is None else record.baseline.settings,
    ),
    ("base is", lambda record: None if record.baseline is None else _base_identity(record)),
)
"""The facts that all shards of one run share, with their names for messages."""


def _base_identity(record: Record) -> Any:
    base = None if record.baseline is None else record.baseline.base
    return None if base is None else {"source": base.source, "commit": base.commit}


def _check_same(shards: Sequence[ShardResults]) -> None:
    """Check that all shards have the same suite, target, settings and judges, and read the same files.

    Raises:
        MergeError: with a sentence for each difference from the first shard.
    """
    first = shards[0]
    problems = [
        f"{part.name}: its {what} not {'those' if what.endswith('are') else 'that'} of {first.name}: "
        f"{_difference(of(part.record), of(first.record))}; {_RUN_AGAIN}"
        for part in shards[1:]
        for what, of in _SHARED_FACTS
        if of(part.record) != of(first.record)
    ]
    problems = problems or [*_differing_judges(shards), *_differing_files(shards)]
    if problems:
        raise MergeError(problems)


def _difference(actual: Any, expected: Any) -> str:
    """Return the differences of two values: `3, not 2`, or `max_flaky is 3, not none` for each differing part."""
    ours, theirs = dict(_leaves(to_plain(actual))), dict(_leaves(to_plain(expected)))
    places = [place for place in {**theirs, **ours} if ours.get(place) != theirs.get(place)]
    said = [
        f"{one_line(place, 80) + ' is ' if place else ''}{_as_text(ours.get(place))}, not {_as_text(theirs.get(place))}"
        for place in places
    ]
    more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return ", ".join(said[:_SHOWN]) + more


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, leaf) for each leaf of plain data, with paths such as `metrics.rouge.min_mean`."""
    if isinstance(value, Mapping):
        items = ((str(name), item) for name, item in value.items())
    elif isinstance(value, list):
        items = ((str(at), item) for at, item in enumerate(value))
    else:
        yield place, value
        return
    for name, item in items:
        yield from _leaves(item, f"{place}.{name}" if place else name)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else one_line(str(value), 80)


def _differing_files(shards: Sequence[ShardResults]) -> Iterator[str]:
    """Yield a sentence for each file or setting that differed between two shards."""
    silent = [part for part in shards if not part.shard.depends]
    if silent and len(silent) < len(shards):
        yield (
            f"{silent[0].name}: does not record which code and files it was run with, but other shards do; {_RUN_AGAIN}"
        )
    seen: dict[str, tuple[str, str]] = {}
    for part in shards:
        for what, digest in part.shard.depends.items():
            name, before = seen.setdefault(what, (part.name, digest))
            if before != digest:
                yield f"{part.name}: {one_line(what, 120)} differed from when {name} was run; {_RUN_AGAIN}"


def _differing_judges(shards: Sequence[ShardResults]) -> Iterator[str]:
    seen: dict[str, ShardResults] = {}
    for part in shards:
        for metric, found in part.record.configurations.items():
            before = seen.setdefault(metric, part)
            if before.record.configurations[metric] != found:
                name = one_line(metric, 80)
                yield f"{part.name}: judges or settings of {name} are not those of {before.name}; {_RUN_AGAIN}"


class _CaseMerger:
    """Takes each case from the shard that ran it, and collects problems."""

    def __init__(self, shards: Sequence[ShardResults], *, complete: bool) -> None:
        self._parts = shards
        self._complete = complete and all(
            part.record.ended_early is None and part.record.certain is None for part in shards
        )
        self._problems: list[str] = []
        self._differing = 0

    def merge(self) -> tuple[CaseRecord, ...]:
        """Return the merged cases.

        Raises:
            MergeError: a case differs between shards, or was run by two shards, or by none although all finished.
        """
        merged = tuple(map(self._merge_case, zip(*(part.record.cases for part in self._parts), strict=True)))
        if self._problems:
            more = self._differing - _SHOWN
            raise MergeError(self._problems + ([f"and {more} more cases differ"] if more > 0 else []))
        return merged

    def _merge_case(self, column: Sequence[CaseRecord]) -> CaseRecord:
        parts, first = self._parts, column[0]
        bare = replace(first, trials=(), confirmation=())
        title = one_line(first.name or first.id, 80)
        for part, case in zip(parts[1:], column[1:], strict=True):
            if (theirs := replace(case, trials=(), confirmation=())) != bare:
                how = _difference(theirs, bare)
                self._add(f"{part.name}: the case {title} is not that of {parts[0].name}: {how}; {_RUN_AGAIN}")
        ran = [at for at, case in enumerate(column) if case.trials]
        if len(ran) > 1:
            one, other = (parts[at] for at in ran[:2])
            self._add(f"{other.name}: the case {title} was run by shard {one.shard}, too; {_SPLIT_AGAIN}")
        elif not ran and self._complete:
            self._add(f"the case {title} was run by no shard; {_SPLIT_AGAIN}")
        return column[ran[0] if ran else 0]

    def _add(self, problem: str) -> None:
        self._differing += 1
        if self._differing <= _SHOWN:
            self._problems.append(problem)


_SPLIT_AGAIN = "the cases were distributed differently, because bases or versions differ; run all shards again"


def _merge_records(shards: Sequence[ShardResults], *, complete: bool) -> Record:
    _check_same(shards)
    records, cases = [part.record for part in shards], _CaseMerger(shards, complete=complete).merge()
    first = min(records, key=lambda record: record.run.started_at)
    shard = first.run.shard
    assert shard is not None
    answers = tuple(answer_notices(cases, shard.max_tokens))
    before, after = first.notices[: shard.conditions], first.notices[shard.conditions :]
    ended = [f"shard {record.run.shard}: {record.ended_early}" for record in records if record.ended_early is not None]
    found = {name: value for record in records for name, value in record.configurations.items()}
    return replace(
        first,
        cases=cases,
        run=_merge_runs([record.run for record in records], first.run),
        stopped="; ".join(ended) or None,
        notices=(*before, *answers, *after, *([] if shard.depends else [_NO_INPUTS_RECORDED])),
        configurations={name: found[name] for name in sorted(found)},
        certain=_merge_ends(records, cases),
        probes=_merge_probes(records),
    )


def _merge_probes(records: Sequence[Record]) -> tuple[JudgeProbe, ...]:
    """Return the probes of all shards, each once; a probe that a judge did not pass in one shard is not passed."""
    found: dict[str, JudgeProbe] = {}
    for probe in (probe for record in records for probe in record.probes):
        before = found.get(probe.identity)
        if before is None or (before.passed, before.kept) > (probe.passed, probe.kept):
            found[probe.identity] = probe
    return tuple(sorted(found.values(), key=lambda each: (each.metric, each.judge, each.identity)))


def _merge_ends(records: Sequence[Record], cases: Sequence[CaseRecord]) -> CertainEnd | None:
    """Return the cases that count in the merged run, if a shard stopped because the exit code was certain; None if all
    cases count."""
    ends = [record.certain for record in records if record.certain is not None]
    if not ends:
        return None
    answered = {name: trials for end in ends for name, trials in end.not_counted.items()}
    return CertainEnd(tuple(case.id for case in cases if case.trials), answered)


def _merge_runs(runs: Sequence[RunInfo], first_run: RunInfo) -> RunInfo:
    started, finished = min(run.started_at for run in runs), max(run.finished_at for run in runs)
    lasted = datetime.fromisoformat(finished) - datetime.fromisoformat(started)
    calls = [run.model_calls for run in runs if run.model_calls is not None]
    return replace(
        first_run,
        finished_at=finished,
        duration_ms=1000 * lasted.total_seconds(),
        resumed_trials=sum(run.resumed_trials for run in runs),
        model_calls=_sum_calls(calls) if calls else None,
        notices=tuple(dict.fromkeys(notice for run in runs for notice in run.notices)),
        shard=None,
        closure=merge_closures([run.closure for run in runs]),
    )


_COUNTS = ("calls", "cached", "failed", "requests", "reused")


def _sum_calls(shard_calls: Sequence[ModelCalls]) -> ModelCalls:
    tokens = [part.tokens for part in shard_calls if part.tokens is not None]
    costs = [part.cost_usd for part in shard_calls if part.cost_usd is not None]
    return ModelCalls(
        **{name: sum(getattr(part, name) for part in shard_calls) for name in _COUNTS},
        tokens=sum(tokens) if len(tokens) == len(shard_calls) else None,
        cost_usd=math.fsum(costs) if len(costs) == len(shard_calls) else None,
    )


def _merge_bases(shards: Sequence[ShardResults]) -> BaseResults | None:
    """Return the base of the run, whole or merged from the bases of the shards; None if the run has no base.

    Raises:
        MergeError: the shards were not compared with the same base.
    """
    bases = [(part, part.base) for part in shards if part.base is not None]
    if not bases:
        return None
    if len(bases) < len(shards):
        without = next(part.name for part in shards if part.base is None)
        raise MergeError([f"{without}: was not compared, but {bases[0][0].name} was; {_RUN_AGAIN}"])
    if len({base.results.digest for _, base in bases}) == 1 and bases[0][1].results.record.run.shard is None:
        return bases[0][1]
    if any(base.results.record.run.shard is None for _, base in bases):
        raise MergeError([f"{bases[1][0].name}: was compared with other results than {bases[0][0].name}; {_RUN_AGAIN}"])
    run = [ShardResults(f"{part.name}, its base", base.results.record) for part, base in bases]
    # No shard runs cases that only the base has.
    return make_base_results(_merge_records(run, complete=False))
