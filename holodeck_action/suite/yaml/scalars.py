"""The meaning of an unquoted YAML scalar: YAML 1.1 as PyYAML's safe loader reads it, except that dates stay text.

JSON may write a character above U+FFFF as an escaped surrogate pair, `\\ud83d\\ude00`. YAML's parser refuses these, so
they are joined before parsing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from yaml.resolver import Resolver

from holodeck_action.text.lazy_patterns import lazy_pattern

_TABLE: dict[str, list[tuple[str, Any]]] = Resolver.yaml_implicit_resolvers
_PREFIX = "tag:yaml.org,2002:"
_TRUE = frozenset(("yes", "true", "on"))

NULLS = frozenset(("", "~", "null", "Null", "NULL"))
MERGE = "<<"
SPECIAL_KEYS = frozenset((MERGE, "="))
"""Keys with a meaning in YAML 1.1; PyYAML's safe loader refuses them as unquoted values."""


def resolve(text: str) -> Any:
    """Read an unquoted scalar as bool, int, float, None or string.

    Raises:
        ValueError: it looks like a number that Python cannot represent, such as a number of 5,000 digits.
    """
    candidates = _TABLE.get(text[:1])
    if candidates is None:
        return text
    for tag, pattern in candidates:
        if pattern.match(text):
            return construct(tag, text)
    return text


_CORE_NUMBER = lazy_pattern(r"[-+]?(?:[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)")
_CORE_FLOAT = lazy_pattern(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CORE_WORDS: dict[str, Any] = {
    **dict.fromkeys(NULLS, None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def resolve_core(text: str) -> Any:
    """Read an unquoted scalar as YAML 1.2 does: `yes`, `12:30` and `1_000` are strings, and `010` is ten.

    Raises:
        ValueError: the number is too large for Python.
    """
    if text in _CORE_WORDS:
        return _CORE_WORDS[text]
    if _CORE_NUMBER.fullmatch(text):
        sign, digits = _sign(text)
        return sign * (int(digits, 0) if digits[:2] in ("0o", "0x") else int(digits))
    return float(text) if _CORE_FLOAT.fullmatch(text) else text


def construct(tag: str, text: str) -> Any:
    """Read a scalar as the standard type that a tag names; tags other than bool, int, float and null give a string.

    Raises:
        ValueError: the text is not of that type.
    """
    kind = tag.removeprefix(_PREFIX)
    if kind == "null":
        return None
    if kind == "bool":
        return _boolean(text)
    if kind == "int":
        return _integer(text)
    if kind == "float":
        return _float(text)
    return text


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in _TRUE and word not in ("no", "false", "off"):
        raise ValueError("not a boolean")
    return word in _TRUE


def _sign(number: str) -> tuple[int, str]:
    return (-1 if number[:1] == "-" else 1), number[1:] if number[:1] in ("+", "-") else number


def _integer(text: str) -> int:
    sign, digits = _sign(text.replace("_", ""))
    if digits.startswith("0b"):
        return sign * int(digits[2:], 2)
    if digits.startswith("0x"):
        return sign * int(digits[2:], 16)
    if digits.startswith("0"):
        return sign * int(digits, 8)
    if ":" in digits:
        return sign * int(_sexagesimal([int(part) for part in digits.split(":")]))
    return sign * int(digits)


def _float(text: str) -> float:
    sign, digits = _sign(text.replace("_", "").lower())
    if digits in (".inf", ".nan"):
        return sign * float(digits[1:])
    if ":" in digits:
        return sign * float(_sexagesimal([float(part) for part in digits.split(":")]))
    return sign * float(digits)


def _sexagesimal(numbers: list[Any]) -> Any:
    # As the safe loader computes it, term by term from the right, so that floats agree to the last bit.
    base = 1
    value: Any = 0
    for part in reversed(numbers):
        value += part * base
        base *= 60
    return value


_ESCAPE = lazy_pattern(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)", re.S)
_MARKS = range(0x10FF00, 0x10FF40)
"""Private-use characters that no text contains. They stand for an escaped surrogate pair, keep its width, and encode
the index of its original spelling.
"""
_MARK = f"[{chr(_MARKS[0])}-{chr(_MARKS[-1])}]"
_ANY_MARK = lazy_pattern(_MARK)
_WRITTEN_MARK = lazy_pattern(rf"{_MARK}|\\U0010[fF][fF][0-3]")
_RUN_OF_MARKS = lazy_pattern(f"{_MARK}+")
_JOINED = lazy_pattern(rf"\\U[0-9a-f]{{8}}({_MARK})({_MARK})")
_LONE = lazy_pattern(r"[dD][89a-fA-F][0-9a-fA-F]{2}")


class JoinedSurrogates(Struct, frozen=True):
    """A YAML text in which each escaped surrogate pair is replaced by one escape, padded so that columns stay the same.

    Attributes:
        text: the text; each pair is padded with `_MARKS`, which encode the index of its original spelling.
        spellings: original spellings of the pairs.
    """

    text: str
    spellings: Sequence[str]

    def scalar(self, value: str, *, escapes: bool) -> str:
        """Return a scalar without its `_MARKS`. If `escapes` is False (the scalar is not double-quoted), restore the
        original spellings of the pairs."""
        if _ANY_MARK.search(value) is None:
            return value
        if escapes:
            # A pair can itself be a mark, which then begins a group of three.
            return _RUN_OF_MARKS.sub(lambda run: run[0][len(run[0]) % 3 :: 3], value)
        return _JOINED.sub(lambda found: self.spellings[_spelling_index(found[1], found[2])], value)


def join_surrogates(text: str) -> JoinedSurrogates | None:
    """Join the escaped surrogate pairs (UTF-16) of a YAML text.

    Returns:
        The text; None if the text has no pair, has too many different pairs, or contains the characters that this
        function uses as marks.
    """
    if _WRITTEN_MARK.search(text) is not None:
        return None
    numbers: dict[str, int] = {}

    def join(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        number = numbers.setdefault(match[0], len(numbers))
        code = 0x10000 + ((int(match[1], 16) & 0x3FF) << 10) + (int(match[2], 16) & 0x3FF)
        high, low = divmod(number, len(_MARKS))
        return f"\\U{code:08x}{chr(_MARKS[0] + high % len(_MARKS))}{chr(_MARKS[0] + low)}"

    text = _ESCAPE.sub(join, text)
    return JoinedSurrogates(text, tuple(numbers)) if 0 < len(numbers) <= len(_MARKS) ** 2 else None


def lone_surrogate(digits: str) -> str | None:
    """Return the problem of a `\\u` escape with these digits; None if they are not a lone surrogate."""
    found = _LONE.match(digits)
    if found is None:
        return None
    return f"\\u{found[0]} is one half of a character: write both halves, one after the other, or the character itself"


def _spelling_index(high: str, low: str) -> int:
    return (ord(high) - _MARKS[0]) * len(_MARKS) + ord(low) - _MARKS[0]
