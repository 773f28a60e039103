"""Reading what agents send: JSON within limits, and what it is in messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

from holodeck_action.text.plain import whole

JSON_EXPANSION = 6
"""Most bytes JSON needs for one byte of text (a control character becomes `\\u0000`)."""


class ConstantError(ValueError):
    """A text holds a number that JSON does not have: `NaN`, `Infinity` or `-Infinity`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not a JSON value")
        self.name = name


def _refuse_constant(name: str) -> NoReturn:
    raise ConstantError(name)


DEEPEST = 200
"""Levels of a value, far below what Python can walk through."""


class JsonSyntaxError(ValueError):
    """A text is not JSON: what is wrong with it, in which line and column from 1."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(f"{what} at {'' if line == 1 else f'line {line} '}column {column}")
        self.what, self.line, self.column = what, line, column


class DuplicateKeyError(ValueError):
    """An object holds a key twice; the message is the key."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        raise DuplicateKeyError(next(name for name in times if times[name] > 1))
    return found


_DECODERS = {
    (constants, unique): json.JSONDecoder(
        parse_constant=None if constants else _refuse_constant, object_pairs_hook=_unique if unique else None
    )
    for constants in (False, True)
    for unique in (False, True)
}


def parse_json(text: str, *, constants: bool = False, unique: bool = False) -> Any:
    """Parse one JSON value as RFC 8259 has it.

    Args:
        text: the JSON.
        constants: whether NaN and infinities are taken, which some programs write.
        unique: whether a key that an object holds twice is refused; else the last one counts.

    Raises:
        JsonSyntaxError: the text is not JSON.
        ConstantError: it holds NaN or an infinity.
        DuplicateKeyError: an object holds a key twice.
        ValueError: it is nested too deeply, or holds a number too long to read; one clause says why.
    """
    try:
        value = _DECODERS[constants, unique].decode(text)
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
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(value):
        raise ValueError("it is nested too deeply")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
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
    """Name the JSON type of a value, for messages that must not show the value itself."""
    if value is None:
        return "null"
    named = next((name for kinds, name in _KINDS if isinstance(value, kinds)), None)
    return named or f"a value of type {type(value).__name__}"


def unknown_key(key: object, allowed: Sequence[str]) -> str:
    """Say that a key is none of the allowed ones, with the one that was probably meant or else all of them."""
    # Worker processes need no more of this module than its parser.
    import difflib

    shown = whole(str(key), 40)
    close = difflib.get_close_matches(shown, allowed, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"allowed: {', '.join(allowed)}"
    return f"unknown key `{shown}` ({hint})"
