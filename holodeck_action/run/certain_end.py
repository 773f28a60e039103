"""Finds the number of cases, in run order, after which a run's exit code is certain (`stop: certain`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import UTC, datetime

from holodeck_action.decide.decision import decide
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.decide.survey import RecordTotals, is_expired, judge_cases
from holodeck_action.record.record import Record, TrialRecord
from holodeck_action.run.run import Run
from holodeck_action.run.trial_plans import Plan, Position

_SHARE, _ALLOWANCE_S = 0.05, 0.25
"""A run spends at most this share of its time plus this number of seconds on checks whether its exit code is certain.
"""


def case_order(suite: Run, base: Record | None, flaky: Set[str]) -> list[Position]:
    """Return the positions of the cases of a suite, or of its shard, in the order in which they run.

    Cases that failed on the base come first, then cases that were flaky, then the others, each in the order of the
    suite. Quarantined cases come last, since gates ignore their results.

    Args:
        suite: the suite.
        base: the record of the base; None if it is not known before the run.
        flaky: ids of the cases that were flaky in the history, as in records.
    """
    failed = {verdict.id for verdict in judge_cases(base) if verdict.judged == "failed"} if base is not None else set()
    today, own = datetime.now(UTC).date(), {case.id for case in suite.own_cases}
    waived = {entry.case for entry in suite.suite.policy.quarantine if not is_expired(entry, today)}

    def rank(position: Position) -> tuple[bool, bool, bool]:
        case = suite.cases[position]
        recorded = suite.redactor.case_id(case.id, case.content_hash)
        return case.id in waived, recorded not in failed, recorded not in flaky

    return sorted((at for at, case in enumerate(suite.cases) if case.id in own), key=rank)


class UntilCertain(Plan):
    """A plan that ends when the exit code is certain: only the fewest cases in `order` that make it so count.

    They do not depend on the order in which cases finish: if the first n cases decide, so do the first n + 1.
    """

    def __init__(
        self,
        plan: Plan,
        order: Sequence[Position],
        record_of: Callable[[Mapping[Position, tuple[TrialRecord, ...]]], Record],
        monotonic: Callable[[], float],
    ) -> None:
        """Start with no finished case.

        Args:
            plan: the plan of all trials.
            order: positions of the cases in this run, in the order in which they run.
            record_of: takes the positions of cases, each with the trials that decide it, and returns the record of a
                run that stopped after these cases.
            monotonic: returns the time in seconds.
        """
        super().__init__(plan)
        self._order, self._record_of, self._monotonic = order, record_of, monotonic
        self._finished: dict[Position, tuple[TrialRecord, ...]] = {}
        self._reached = self._undecided = 0
        self._begun, self._spent = monotonic(), 0.0
        self._found: Sequence[Position] | None = None

    def order(self) -> Sequence[Position]:
        """Return the positions of the cases to run."""
        return self._order

    def end_case(self, at: Position, deciding: tuple[TrialRecord, ...]) -> bool:
        """Return whether the run ends with this case."""
        self._finished[at] = deciding
        before = self._reached
        while self._reached < len(self._order) and self._order[self._reached] in self._finished:
            self._reached += 1
        begun = self._monotonic()
        if self._reached > before and self._spent <= _ALLOWANCE_S + _SHARE * (begun - self._begun):
            self._search()
            self._spent += self._monotonic() - begun
        return self._found is not None

    async def counted(self, *, stopped: bool) -> Sequence[Position] | None:
        """Return the cases that count; None if all do."""
        if stopped:
            return None
        if self._reached > self._undecided:
            self._search()
        return None if self._found is None or len(self._found) == len(self._order) else self._found

    def _search(self) -> None:
        low, high = self._undecided, self._reached
        if self._found is not None or not self._decides(high):
            self._undecided = high
            return
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._decides(middle) else (middle, high)
        self._found = self._order[:high]

    def _decides(self, length: int) -> bool:
        record = self._record_of({at: self._finished[at] for at in self._order[:length]})
        # The digest of the record would take longer than its verdict, and is not needed.
        verdict = decide(record, survey=RecordTotals(record, digest="unknown"))
        return verdict.exit_code in (ExitCode.PASSED, ExitCode.VIOLATED)
