"""The finished trials of a run: in memory while they are few, then in a file of their own, as JSON."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from holodeck_action.results.canonical import adapter
from holodeck_action.results.kept_texts import KeptTexts
from holodeck_action.results.record import CaseRecord, TrialRecord
from holodeck_action.results.stored_cases import LazyCases, parsed_case

_NO_TRIALS = b'"trials":[]'


class KeptTrials:
    """Finished trials by the id of their case and their index."""

    def __init__(self) -> None:
        self._texts = KeptTexts()
        self._places: dict[tuple[str, int], int] = {}
        self._trials: dict[tuple[str, int], TrialRecord] = {}

    def add(self, case_id: str, trial: TrialRecord, text: bytes) -> None:
        """Keep a trial, which is also given as JSON."""
        key = (case_id, trial.index)
        self._places[key] = self._texts.add(text)
        if self._texts.few:
            self._trials[key] = trial
        else:
            self._trials = {}

    def records(
        self, cases: Iterable[tuple[str, CaseRecord]], counted: Mapping[str, Sequence[int]]
    ) -> Sequence[CaseRecord]:
        """Return cases with their trials: a tuple while they are few.

        Args:
            cases: by the ids that trials were kept under, without trials.
            counted: indexes of the trials of each that count.
        """
        if self._texts.few:
            return tuple(
                replace(bare, trials=tuple(self._trials[case_id, index] for index in counted[case_id]))
                for case_id, bare in cases
            )
        heads, places = array("Q"), array("Q")
        ends = array("Q")
        for case_id, bare in cases:
            heads.append(self._texts.add(adapter(CaseRecord).dump_json(bare)))
            places.extend(self._places[case_id, index] for index in counted[case_id])
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
