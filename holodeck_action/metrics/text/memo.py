"""A bounded memo for per-word work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

V = TypeVar("V")

_MAX_ENTRIES = 1 << 16
_MAX_KEY_CHARS = 64


class Memo(dict[str, V]):
    """`memo[word]` is `function(word)`, computed once for words of ordinary length.

    Texts are hostile, so memory is bounded: keys longer than 64 characters are never kept, and at 65,536 entries the
    memo starts afresh. Safe between threads: every operation is one atomic dict operation, and `function` is pure.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[str], V]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: str) -> V:
        value = self._function(key)
        if len(key) <= _MAX_KEY_CHARS:
            if len(self) >= _MAX_ENTRIES:
                self.clear()
            self[key] = value
        return value
