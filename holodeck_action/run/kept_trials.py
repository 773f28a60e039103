"""Trials of a run by a key, as JSON: in memory if they are few, else in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from holodeck_action.record.serialization import from_json, to_json
from holodeck_action.text.text_store import TextStore

K = TypeVar("K")
V = TypeVar("V")


class KeptTrials(Mapping[K, V]):
    """Trials, or tuples of trials, by a key; they are parsed whenever they are read."""

    def __init__(self, kind: type[V]) -> None:
        """Start without trials; `kind` is the type of the values."""
        self._kind, self._texts = kind, TextStore()
        self._places: dict[K, int] = {}

    @property
    def is_in_memory(self) -> bool:
        """Whether the trials are few enough for memory."""
        return self._texts.is_in_memory

    def keep(self, key: K, value: V) -> None:
        """Keep a value; it replaces an earlier one of the key."""
        self._places[key] = self._texts.add(to_json(value))

    def __getitem__(self, key: K) -> V:
        return from_json(self._texts.read(self._places[key]), self._kind)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[K]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
