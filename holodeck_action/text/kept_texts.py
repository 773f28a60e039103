"""Texts of a large suite, run or page: in memory while they are few, then in a file of their own that has no name."""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array

_IN_MEMORY = 16 * 1024 * 1024
"""Bytes from which on they are in a file."""


class KeptTexts:
    """Texts by the place that they were given, on the disk once there are many.

    A disk that cannot take them does not end the run: they stay in memory.
    """

    def __init__(self) -> None:
        self._starts, self._lengths, self._size = array("Q"), array("Q"), 0
        self._memory: dict[int, bytes] = {}
        self._handle: int | None = None

    @property
    def few(self) -> bool:
        """Whether all of them are in memory."""
        return self._size < _IN_MEMORY

    def add(self, text: bytes) -> int:
        """Keep a text; return its place, which is the number of those before."""
        place = len(self._starts)
        self._starts.append(self._size)
        self._lengths.append(len(text))
        self._size += len(text)
        self._memory[place] = text
        if not self.few:
            self._write()
        return place

    def read(self, place: int) -> bytes:
        """Return the text at a place."""
        kept = self._memory.get(place)
        if kept is not None:
            return kept
        assert self._handle is not None
        return os.pread(self._handle, self._lengths[place], self._starts[place])

    def _write(self) -> None:
        try:
            if self._handle is None:
                with tempfile.TemporaryFile() as file:
                    self._handle = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._handle)
            for place, text in self._memory.items():
                if os.pwrite(self._handle, text, self._starts[place]) < len(text):
                    return
        except OSError:
            return
        self._memory = {}
