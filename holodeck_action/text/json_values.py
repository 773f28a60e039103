"""Parsing JSON with limits, and the names of its types for messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

from holodeck_action.text.plain import line_or_length

JSON_EXPANSION = 6
"""Maximum number of bytes that JSON needs for one byte of text (a control character becomes `\\u0000`)."""


class ConstantError(ValueError):
    """The input contains a number that JSON does not allow: `NaN`, `Infinity` or `-Infinity`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not a JSON value")
        self.name = name


def _refuse_constant(name: str) -> NoReturn:
    raise ConstantError(name)


MOST_LEVELS = 200
"""Maximum number of nested levels; far below Python's recursion limit."""


class JsonSyntaxError(ValueError):
    """The input is not JSON; the message is the defect with its line and column, both from 1."""

    def __init__(self, problem: str, line: int, column: int) -> None:
        super().__init__(f"{problem} at {'' if line == 1 else f'line {line} '}column {column}")
        self.what, self.line, self.column = problem, line, column


class DuplicateKeyError(ValueError):
    """A JSON object contains a key twice; the message is the key."""


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        raise DuplicateKeyError(next(name for name in times if times[name] > 1))
    return found


_DECODERS = {
    (constants, unique): json.JSONDecoder(
        parse_constant=None if constants else _refuse_constant, object_pairs_hook=_refuse_duplicates if unique else None
    )
    for constants in (False, True)
    for unique in (False, True)
}


def parse_json(text: str, *, constants: bool = False, unique_keys: bool = False) -> Any:
    """Parse one JSON value (RFC 8259).

    Args:
        text: the JSON.
        constants: whether to accept NaN and infinities, which some programs write.
        unique_keys: whether to reject duplicate keys; otherwise the last value counts.

    Raises:
        JsonSyntaxError: the text is not JSON.
        ConstantError: it contains NaN or an infinity.
        DuplicateKeyError: an object contains a key twice.
        ValueError: it is nested too deeply, or contains a number that is too long; the message is one clause.
    """
    try:
        value = _DECODERS[constants, unique_keys].decode(text)
    except (DuplicateKeyError, ConstantError):
        raise
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(error.msg, error.lineno, error.colno) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        # The interpreter's own limit on digits explains itself with advice that does not apply here.
        reason = "it holds a number too long to read" if "digits" in str(error) else str(error)
        raise ValueError(reason) from None
    if text.count("[") + text.count("{") > MOST_LEVELS and _is_deep(value):
        raise ValueError("it is nested too deeply")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


_KINDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bool,), "true or false"),
    ((str,), "text"),
    ((int, float), "a number"),
    ((dict,), "an object"),
    ((list, tuple), "a list"),
)


def kind_of(value: object) -> str:
    """Return the name of a value's JSON type, for messages that must not show the value."""
    if value is None:
        return "null"
    named = next((name for kinds, name in _KINDS if isinstance(value, kinds)), None)
    return named or f"a value of type {type(value).__name__}"


def unknown_key_clause(key: object, allowed: Sequence[str]) -> str:
    """Return a clause about an unknown key, with the closest allowed key or else all allowed keys."""
    # Imported here because worker processes use only the parser of this module.
    import difflib

    shown = line_or_length(str(key), 40)
    close = difflib.get_close_matches(shown, allowed, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"allowed: {', '.join(allowed)}"
    return f"unknown key `{shown}` ({hint})"
