"""The finished trials of a run: in memory while they are few, then in a file of their own, as JSON."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec.structs import replace

from holodeck_action.record.record import CaseRecord, TrialRecord
from holodeck_action.record.serialization import to_json
from holodeck_action.record.stored_cases import LazyCases, parsed_case
from holodeck_action.text.kept_texts import KeptTexts

_NO_TRIALS = b'"trials":[]'


class KeptTrials:
    """Finished trials by the place of their case and their index."""

    def __init__(self, repeats: Iterable[int]) -> None:
        """Begin without trials; `repeats` says how many each case may have."""
        self._texts = KeptTexts()
        self._firsts = array("Q", accumulate(repeats, initial=0))
        self._places = array("Q", [0]) * self._firsts[-1]
        self._trials: dict[int, TrialRecord] = {}

    def add(self, case: int, trial: TrialRecord, text: bytes) -> None:
        """Keep a trial of the case at a place, which is also given as JSON."""
        at = self._firsts[case] + trial.index
        self._places[at] = self._texts.add(text)
        if self._texts.few:
            self._trials[at] = trial
        else:
            self._trials = {}

    def records(self, cases: Iterable[CaseRecord], counted: Sequence[Sequence[int]]) -> Sequence[CaseRecord]:
        """Return cases with their trials: a tuple while they are few.

        Args:
            cases: without trials, in order.
            counted: indexes of the trials of each that count.
        """
        found = (
            (bare, [first + index for index in indexes])
            for bare, first, indexes in zip(cases, self._firsts, counted, strict=False)
        )
        if self._texts.few:
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

    def __init__(self, texts: KeptTexts, heads: array[int], trials: array[int], ends: array[int]) -> None:
        super().__init__(len(heads))
        self._texts, self._heads, self._trials, self._ends = texts, heads, trials, ends

    def line(self, place: int) -> bytes:
        first = self._ends[place - 1] if place else 0
        trials = b",".join(map(self._texts.read, self._trials[first : self._ends[place]]))
        # Quotes within texts are escaped: nothing else reads like this.
        return self._texts.read(self._heads[place]).replace(_NO_TRIALS, b'"trials":[' + trials + b"]", 1)

    def made(self, place: int) -> CaseRecord:
        return parsed_case(self.line(place), "the run")
