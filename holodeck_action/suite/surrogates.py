"""Escaped surrogate pairs, `\\ud83d\\ude00`: how JSON writes a character above U+FFFF, and YAML's parser refuses it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_ESCAPE = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)", re.S)
_MARKS = range(0x10FF00, 0x10FF40)
"""Private characters that nobody writes: two of them number a pair's spelling, and keep its place as wide as it was."""
_MARK = f"[{chr(_MARKS[0])}-{chr(_MARKS[-1])}]"
_ANY_MARK = re.compile(_MARK)
_JOINED = re.compile(rf"\\U[0-9a-f]{{8}}({_MARK})({_MARK})")
_LONE = re.compile(r"[dD][89a-fA-F][0-9a-fA-F]{2}")


@dataclass(frozen=True, slots=True)
class Joined:
    """A text whose escaped pairs are written as YAML reads them, each as wide as before.

    Attributes:
        text: the text.
        spellings: of the pairs, by the number in their marks.
    """

    text: str
    spellings: Sequence[str]

    def scalar(self, value: str, *, escapes: bool) -> str:
        """Return what a scalar of the text says: without marks, or where escapes mean nothing, as it was written."""
        if _ANY_MARK.search(value) is None:
            return value
        if escapes:
            return _ANY_MARK.sub("", value)
        return _JOINED.sub(lambda found: self.spellings[_number(found[1], found[2])], value)


def joined_pairs(text: str) -> Joined | None:
    """Join the escaped pairs of a YAML text; None where there are none, or too many spellings to tell apart."""
    if _ANY_MARK.search(text) is not None:
        return None
    numbers: dict[str, int] = {}

    def join(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        number = numbers.setdefault(found[0], len(numbers))
        code = 0x10000 + ((int(found[1], 16) & 0x3FF) << 10) + (int(found[2], 16) & 0x3FF)
        high, low = divmod(number, len(_MARKS))
        return f"\\U{code:08x}{chr(_MARKS[0] + high % len(_MARKS))}{chr(_MARKS[0] + low)}"

    text = _ESCAPE.sub(join, text)
    return Joined(text, tuple(numbers)) if 0 < len(numbers) <= len(_MARKS) ** 2 else None


def lone_surrogate(digits: str) -> str | None:
    """Say what is wrong where the digits of a refused `\\u` begin; None where they are no surrogate's."""
    found = _LONE.match(digits)
    if found is None:
        return None
    return f"\\u{found[0]} is one half of a character: write both halves, one after the other, or the character itself"


def _number(high: str, low: str) -> int:
    return (ord(high) - _MARKS[0]) * len(_MARKS) + ord(low) - _MARKS[0]
