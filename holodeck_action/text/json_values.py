"""Reading what agents send: JSON within limits, and what it is in messages."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any, NoReturn

from holodeck_action.text.plain import whole

JSON_EXPANSION = 6
"""Most bytes JSON needs for one byte of text (a control character becomes `\\u0000`)."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def parse_json(text: str) -> Any:
    """Parse one JSON value as RFC 8259 has it: NaN and infinities are refused.

    Raises:
        ValueError: the text is not JSON, is nested too deeply, or holds a number too long to read; one clause says why.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        line = "" if error.lineno == 1 else f"line {error.lineno} "
        raise ValueError(f"{error.msg} at {line}column {error.colno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        # The interpreter's own limit on digits explains itself with advice that does not apply here.
        reason = "it holds a number too long to read" if "digits" in str(error) else str(error)
        raise ValueError(reason) from None


def kind_of(value: object) -> str:
    """Name the JSON type of a value, for messages that must not show the value itself."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "text"
        case int() | float():
            return "a number"
        case dict():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"a value of type {type(value).__name__}"


def unknown_key(key: object, allowed: Sequence[str]) -> str:
    """Say that a key is none of the allowed ones, with the one that was probably meant or else all of them."""
    shown = whole(str(key), 40)
    close = difflib.get_close_matches(shown, allowed, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"allowed: {', '.join(allowed)}"
    return f"unknown key `{shown}` ({hint})"
