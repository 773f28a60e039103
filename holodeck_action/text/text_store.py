"""Storage for the texts of a large suite, run or page: in memory at first, then in an anonymous temporary file."""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array

_IN_MEMORY = 16 * 1024 * 1024
"""Bytes above which the texts are moved to a file."""


class TextStore:
    """Stores byte strings by index, in a temporary file once they exceed `_IN_MEMORY` bytes.

    If the disk is full, the byte strings stay in memory.
    """

    def __init__(self) -> None:
        self._starts, self._lengths, self._size = array("Q"), array("Q"), 0
        self._memory: dict[int, bytes] = {}
        self._handle: int | None = None

    @property
    def is_in_memory(self) -> bool:
        """Whether the texts are too small to be moved to a file."""
        return self._size < _IN_MEMORY

    def add(self, text: bytes) -> int:
        """Store a text and return its index, counting from 0."""
        index = len(self._starts)
        self._starts.append(self._size)
        self._lengths.append(len(text))
        self._size += len(text)
        self._memory[index] = text
        if not self.is_in_memory:
            self._write()
        return index

    def read(self, index: int) -> bytes:
        """Return the text with the index that `add` returned."""
        kept = self._memory.get(index)
        if kept is not None:
            return kept
        assert self._handle is not None
        return os.pread(self._handle, self._lengths[index], self._starts[index])

    def _write(self) -> None:
        try:
            if self._handle is None:
                with tempfile.TemporaryFile() as file:
                    self._handle = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._handle)
            for index, text in self._memory.items():
                if os.pwrite(self._handle, text, self._starts[index]) < len(text):
                    return
        except OSError:
            return
        self._memory = {}
