"""Keeps the finished trials of a run: in memory if they are few, else as JSON in a temporary file."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec.structs import replace

from holodeck_action.record.record import CaseRecord, TrialRecord
from holodeck_action.record.serialization import to_json
from holodeck_action.record.stored_cases import LazyCases, parse_case
from holodeck_action.text.text_store import TextStore

_NO_TRIALS = b'"trials":[]'


class KeptTrials:
    """Finished trials by the position of the case and the index of the trial."""

    def __init__(self, repeats: Iterable[int]) -> None:
        """Start without trials; `repeats` has the maximum number of trials of each case."""
        self._texts = TextStore()
        self._firsts = array("Q", accumulate(repeats, initial=0))
        self._places = array("Q", [0]) * self._firsts[-1]
        self._trials: dict[int, TrialRecord] = {}

    def add(self, case: int, trial: TrialRecord, text: bytes) -> None:
        """Add a trial of the case at position `case`; `text` is the trial's JSON."""
        at = self._firsts[case] + trial.index
        self._places[at] = self._texts.add(text)
        if self._texts.is_in_memory:
            self._trials[at] = trial
        else:
            self._trials = {}

    def records(self, cases: Iterable[CaseRecord], trial_indexes: Sequence[Sequence[int]]) -> Sequence[CaseRecord]:
        """Return the cases, each with the trials that decide it.

        The result is a tuple if the trials are in memory. If they were moved to a temporary file, it is a sequence that
        reads them on demand.

        Args:
            cases: the cases without trials, in order.
            trial_indexes: for each case, the indexes of the trials that decide it.
        """
        found = (
            (bare, [first + index for index in indexes])
            for bare, first, indexes in zip(cases, self._firsts, trial_indexes, strict=False)
        )
        if self._texts.is_in_memory:
            return tuple(replace(bare, trials=tuple(map(self._trials.__getitem__, trials))) for bare, trials in found)
        heads, places = array("Q"), array("Q")
        ends = array("Q")
        for bare, trials in found:
            heads.append(self._texts.add(to_json(bare)))
            places.extend(map(self._places.__getitem__, trials))
            ends.append(len(places))
        return _RunCases(self._texts, heads, places, ends)


class _RunCases(LazyCases):
    """The cases of a run that is too large for memory."""

    def __init__(self, texts: TextStore, heads: array[int], trials: array[int], ends: array[int]) -> None:
        super().__init__(len(heads))
        self._texts, self._heads, self._trials, self._ends = texts, heads, trials, ends

    def line(self, place: int) -> bytes:
        first = self._ends[place - 1] if place else 0
        trials = b",".join(map(self._texts.read, self._trials[first : self._ends[place]]))
        # Quotes within texts are escaped: the pattern occurs nowhere else.
        return self._texts.read(self._heads[place]).replace(_NO_TRIALS, b'"trials":[' + trials + b"]", 1)

    def make(self, place: int) -> CaseRecord:
        return parse_case(self.line(place), "the run")
