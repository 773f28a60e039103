"""Runs further trials of cases that got worse, so that one unlucky answer does not count as a regression.

The first verdict of such a case is kept; the further trials count only for the gate on regressed cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import changed_ids, count_gating
from holodeck_action.decide.decision import Terms, decide
from holodeck_action.record.base_results import make_base_results
from holodeck_action.record.record import CaseRecord, Record, TrialRecord
from holodeck_action.record.serialization import to_json
from holodeck_action.record.stored_cases import MappedCases
from holodeck_action.run.bases.baselines import Base, FoundBase, attach_base
from holodeck_action.run.journal import Journal
from holodeck_action.run.open_suites import OpenSuite
from holodeck_action.run.schedule import Lane, Stop, Trials, run_cases
from holodeck_action.run.suite_run import resumable_trials
from holodeck_action.suite.values import Case


class FinishedSide(Struct, frozen=True):
    """A suite, or the base that ran with it, after all cases have run."""

    open_suite: OpenSuite
    journal: Journal | None
    trials: Trials
    record: Record


def base_of(open_suite: OpenSuite, record: Record | None, stored: Base) -> Base:
    """Return the results that a suite is compared with: those of the base that ran with it, or `stored`.

    Args:
        open_suite: the suite.
        record: the record of the base that ran; None if none ran.
        stored: results of an earlier run.
    """
    if open_suite.base is None:
        return stored
    if not isinstance(open_suite.base, OpenSuite):
        return open_suite.base
    assert record is not None
    assert open_suite.base.as_base is not None
    return FoundBase(make_base_results(record), open_suite.base.as_base.run)


def cases_to_confirm(sides: Sequence[FinishedSide], stored: Base) -> Sequence[str]:
    """Return the ids of the regressed and undecided cases that get further trials, worst first; empty if the exit code
    is certain.

    Args:
        sides: the suite, and its base if one ran.
        stored: results of an earlier run to compare with; None if there are none.
    """
    head = sides[0]
    item, settings = head.open_suite.prepared, head.open_suite.prepared.settings.baseline
    if not item.confirms_regressions:
        return ()
    records = [side.open_suite.complete_record(side.record) for side in sides]
    if any(record.stopped is not None and record.run.shard is None for record in records):
        return ()
    if records[0].certain is not None:
        return ()
    record, results = attach_base(
        records[0], item, base_of(head.open_suite, records[1] if len(records) > 1 else None, stored)
    )
    if results is None:
        return ()
    comparison = decide(record, Terms.against(results.results)).comparison
    if comparison is None:
        return ()
    regressed = [*changed_ids(comparison.regressed)][: count_gating(comparison.regressed)]
    undecided = [case.id for case in comparison.undecided if not case.quarantined]
    return [*regressed, *undecided][: settings.confirm.cases]


async def confirm_regressions(
    sides: Sequence[FinishedSide], ids: Sequence[str], lanes: Sequence[Lane], stop: Stop
) -> list[Record]:
    """Run further trials of cases on both sides, and return the records with these trials added.

    Args:
        sides: the suite, and its base if one ran.
        ids: ids of the cases, as in the records.
        lanes: for each side, the lane in which its trials run.
        stop: can end the trials early.
    """
    more = sides[0].open_suite.prepared.settings.baseline.confirm.trials
    asked = (_ask_again(side, ids, more, lane, stop) for side, lane in zip(sides, lanes, strict=True))
    return [
        _add_confirmation(side.record, trials) for side, trials in zip(sides, await asyncio.gather(*asked), strict=True)
    ]


async def _ask_again(
    side: FinishedSide, ids: Sequence[str], extra_trials: int, lane: Lane, stop: Stop
) -> Mapping[str, tuple[TrialRecord, ...]]:
    """Return the further trials of each case by its id in the record, in order of index."""
    ready, redactor = side.open_suite, side.open_suite.redactor
    known = {redactor.case_id(case.id, case.content_hash): case for case in ready.prepared.cases}
    cases = [known[name] for name in ids if name in known]
    found: dict[str, dict[int, TrialRecord]] = {case.id: {} for case in cases}
    keys = {(case.id, index) for case in cases for index in range(case.repeat, case.repeat + extra_trials)}
    stored = ready.prepared.stored

    def keep_trial(place: int, case: Case, trial: TrialRecord, finished: bool) -> None:
        if (case.id, trial.index) not in keys:
            return
        found[case.id][trial.index] = trial
        if side.journal is not None and finished:
            side.journal.append(redactor.case_id(case.id, case.content_hash), to_json(trial))

    await run_cases(
        [replace(case, repeat=case.repeat + extra_trials) for case in cases],
        side.trials,
        lane=lane,
        run_timeout_s=_seconds_left(side),
        stop_when_decided=False,
        stop=stop,
        resumed=resumable_trials(cases, ready.resumed.trials, redactor),
        on_trial=keep_trial,
        on_case=lambda case, trials: None,
        available=keys if stored is None else keys & stored.trials.keys(),
    )
    names = {case.id: name for name, case in known.items()}
    return {names[case]: tuple(trials[index] for index in sorted(trials)) for case, trials in found.items() if trials}


def _seconds_left(side: FinishedSide) -> float | None:
    limit = side.open_suite.prepared.settings.run_timeout_s
    return None if limit is None else max(0.0, limit - side.record.run.duration_ms / 1000)


def _add_confirmation(record: Record, trials: Mapping[str, tuple[TrialRecord, ...]]) -> Record:
    """Return a record with the further trials added to its cases; `trials` has them by case id."""
    if not trials:
        return record

    def add(case: CaseRecord) -> CaseRecord:
        return replace(case, confirmation=trials[case.id]) if case.id in trials else case

    cases = tuple(map(add, record.cases)) if isinstance(record.cases, tuple) else MappedCases(record.cases, add)
    return replace(record, cases=cases)
