"""Plans choose the trials of a run; each rule is one small plan, and plans are put around one another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from holodeck_action.decide.case_verdicts import deciding_prefix, judge_trial, trials_surely_needed
from holodeck_action.decide.contradictions import refuse_contradictions
from holodeck_action.record.record import TrialRecord
from holodeck_action.suite.values import Case

TrialKey = tuple[str, int]
Position = int
"""Index of a case among all cases of a run."""
Finished = Mapping[int, TrialRecord]
"""Finished trials of one case by trial index, in order of completion."""


class Plan:
    """Chooses the trials of a run case by case, like the plan inside of it; a subclass overrides what its rule changes.

    `finished` is always the finished trials of the case at `at`.
    """

    plan: Plan
    cases: Sequence[Case]

    def __init__(self, plan: Plan) -> None:
        self.plan, self.cases = plan, plan.cases

    def order(self) -> Iterable[Position]:
        """Return the positions of the cases to run, in the order in which they start."""
        return self.plan.order()

    def indexes(self, at: Position) -> range:
        """Return the indexes that trials of a case may have."""
        return self.plan.indexes(at)

    def known(self, at: Position) -> dict[int, TrialRecord]:
        """Return the trials of a case that are finished before the run, by index."""
        return self.plan.known(at)

    def next_trials(self, at: Position, finished: Finished) -> Sequence[int]:
        """Return the indexes of the trials that run next, all at once; empty if the case is finished."""
        return self.plan.next_trials(at, finished)

    async def wait_turn(self, at: Position) -> None:
        """Wait until a trial of the case may start."""
        await self.plan.wait_turn(at)

    def deciding(self, at: Position, finished: Finished) -> tuple[TrialRecord, ...]:
        """Return the trials that decide a case, in order of index."""
        return self.plan.deciding(at, finished)

    def end_case(self, at: Position, deciding: tuple[TrialRecord, ...]) -> bool:
        """Take the deciding trials of a finished case; return whether the run ends, because its result is known."""
        return self.plan.end_case(at, deciding)

    async def counted(self, *, stopped: bool) -> Collection[Position] | None:
        """Return the positions of the cases that count, in order, after the last trial; None if all cases count.

        Args:
            stopped: whether the run was stopped, by something else than the plan.
        """
        return await self.plan.counted(stopped=stopped)


class AllTrials(Plan):
    """All trials of all cases; with `stop_when_decided`, those of a case until they decide it."""

    def __init__(self, cases: Sequence[Case], *, stop_when_decided: bool) -> None:
        self.cases, self._stop_when_decided = cases, stop_when_decided

    def order(self) -> Iterable[Position]:
        """Return the positions of the cases to run."""
        return range(len(self.cases))

    def indexes(self, at: Position) -> range:
        """Return the indexes that trials of a case may have."""
        return range(self.cases[at].repeat)

    def known(self, at: Position) -> dict[int, TrialRecord]:
        """Return the trials of a case that are finished before the run."""
        return {}

    def next_trials(self, at: Position, finished: Finished) -> Sequence[int]:
        """Return the trials that run next."""
        case = self.cases[at]
        missing = [index for index in self.indexes(at) if index not in finished]
        if not self._stop_when_decided or case.repeat == 1:
            return missing
        # Only an interrupted run leaves gaps; the trials before a gap are needed for the deciding prefix.
        prefix = next(iter(missing), case.repeat)
        outcomes = [judge_trial(finished[index]).outcome for index in range(prefix)]
        wanted = trials_surely_needed(outcomes, case.repeat, case.passes_needed)
        return [index for index in range(prefix, prefix + wanted) if index not in finished]

    async def wait_turn(self, at: Position) -> None:
        """Return at once."""

    def deciding(self, at: Position, finished: Finished) -> tuple[TrialRecord, ...]:
        """Return the trials that decide a case."""
        case = self.cases[at]
        trials = tuple(finished[index] for index in self.indexes(at) if index in finished)
        if self._stop_when_decided and len(trials) > 1:
            outcomes = [judge_trial(trial).outcome for trial in trials]
            return trials[: deciding_prefix(outcomes, case.repeat, case.passes_needed)]
        return trials

    def end_case(self, at: Position, deciding: tuple[TrialRecord, ...]) -> bool:
        """Return whether the run ends with this case."""
        return False

    async def counted(self, *, stopped: bool) -> Collection[Position] | None:
        """Return the cases that count; None if all do."""
        return None


class FurtherTrials(AllTrials):
    """`extra` trials of each case after its planned ones."""

    def __init__(self, cases: Sequence[Case], extra: int) -> None:
        super().__init__(cases, stop_when_decided=False)
        self._extra = extra

    def indexes(self, at: Position) -> range:
        """Return the indexes that trials of a case may have."""
        repeat = self.cases[at].repeat
        return range(repeat, repeat + self._extra)


class Resumed(Plan):
    """A plan of which some trials are finished, by an interrupted run."""

    def __init__(self, plan: Plan, trials: Mapping[TrialKey, TrialRecord], keys: Mapping[TrialKey, TrialKey]) -> None:
        """Set the trials, and their keys by case id and index: the trials' own keys have redacted ids."""
        super().__init__(plan)
        self._trials, self._keys = trials, keys

    def known(self, at: Position) -> dict[int, TrialRecord]:
        """Return the trials of a case that are finished before the run."""
        keys = [(self.cases[at].id, index) for index in self.indexes(at)]
        return {key[1]: self._trials[self._keys[key]] for key in keys if key in self._keys}


class Available(Plan):
    """A plan that runs only given trials: those of a shard, of a base, or of a record that is graded again."""

    def __init__(self, plan: Plan, keys: Set[TrialKey]) -> None:
        super().__init__(plan)
        self._keys = keys

    def next_trials(self, at: Position, finished: Finished) -> Sequence[int]:
        """Return the trials that run next."""
        return [index for index in self.plan.next_trials(at, finished) if (self.cases[at].id, index) in self._keys]


class Consistent(Plan):
    """A plan in which the evaluations of a judge that contradicts itself within a case are errors."""

    def deciding(self, at: Position, finished: Finished) -> tuple[TrialRecord, ...]:
        """Return the trials that decide a case."""
        changed = refuse_contradictions([*finished.values()])
        return tuple(changed.get(trial.index, trial) for trial in self.plan.deciding(at, finished))
