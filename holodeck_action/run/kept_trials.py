"""Keeps the trials of a run: in memory if they are few, else as JSON in a temporary file."""

from __future__ import annotations

from array import array

from holodeck_action.record.record import TrialRecord
from holodeck_action.record.sequences import LazySequence
from holodeck_action.record.serialization import from_json, to_json
from holodeck_action.text.text_store import TextStore


class KeptTrials(LazySequence[tuple[TrialRecord, ...]]):
    """The trials that decide each case, by the position of the case."""

    def __init__(self, cases: int) -> None:
        """Start without trials; `cases` is the number of cases."""
        super().__init__(cases)
        self._texts = TextStore()
        self._places = array("q", [-1]) * cases
        self._trials: dict[int, tuple[TrialRecord, ...]] = {}

    @property
    def is_in_memory(self) -> bool:
        """Whether the trials are few enough for memory."""
        return self._texts.is_in_memory

    def has(self, at: int) -> bool:
        """Return whether the trials of a case were kept."""
        return self._places[at] >= 0

    def keep(self, at: int, trials: tuple[TrialRecord, ...]) -> None:
        """Keep the trials of a case."""
        self._places[at] = self._texts.add(to_json(trials))
        self._trials[at] = trials
        if not self.is_in_memory:
            self._trials = {}

    def make(self, index: int) -> tuple[TrialRecord, ...]:
        """Return the trials of a case."""
        if self.is_in_memory:
            return self._trials[index]
        return from_json(self._texts.read(self._places[index]), tuple[TrialRecord, ...])
