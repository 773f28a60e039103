"""The setting `response_path`: extraction of the part of a JSON answer that a metric compares."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any

from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.result import excerpt, format_count
from holodeck_action.suite.model.patterns import RESPONSE_PATH
from holodeck_action.text.json_values import JsonSyntaxError, parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern

_PATH = lazy_pattern(RESPONSE_PATH)
_STEP = lazy_pattern(r"([A-Za-z_][\w-]*)|\[([0-9]+)\]")
_SHOWN_KEYS = 10
_SHOWN_KEY = 40


class ResponsePathError(EvaluationError):
    """The answer has no scalar value at the path. Such an answer scores 0, because the agent caused the error."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="response_path")


@lru_cache(maxsize=256)
def parse_path(path: str) -> tuple[str | int, ...]:
    """Parse a path to its steps: object keys as strings, list positions as integers.

    A path consists of segments joined by `.`. A segment is a key (a letter or `_`, then letters, digits, `_`, `-`),
    followed by any number of positions `[n]`, counted from 0.

    Raises:
        ValueError: the path is invalid.
    """
    if not _PATH.fullmatch(path):
        raise ValueError(
            f"response_path {excerpt(path, 80)} is not a path: write keys joined by dots with list positions in "
            "brackets, such as result.items[0].total"
        )
    return tuple(key or int(position) for key, position in _STEP.findall(path))


def extract(response: str, path: str) -> str:
    """Return the value at a path in a JSON answer as a string.

    The whole answer must be JSON. A string is returned unchanged, another scalar as Python formats it (`True`, `None`,
    `100.0`). If an object contains a key twice, the last value counts.

    Args:
        response: text of the answer.
        path: see `parse_path`.

    Raises:
        ValueError: the path is invalid.
        ResponsePathError: the answer is not JSON, or the value at the path is missing, an object or a list.
    """
    value = _parse_answer(response)
    where = ""
    for step in parse_path(path):
        if isinstance(step, int):
            value = _get_item(value, step, where)
            where += f"[{step}]"
        else:
            value = _get_member(value, step, where)
            where += f".{step}" if where else step
    if isinstance(value, dict):
        raise ResponsePathError(f"{where} is an object, not a text or number ({_list_keys(value)})")
    if isinstance(value, list):
        raise ResponsePathError(f"{where} is a list of {format_count(len(value), 'items')}, not a text or number")
    return str(value)


def _parse_answer(response: str) -> Any:
    try:
        return parse_json(response, constants=True)
    except JsonSyntaxError as error:
        where = f"line {error.line}, column {error.column}"
        raise ResponsePathError(f"the answer {excerpt(response)} is not JSON ({error.what} at {where})") from None
    except ValueError as error:
        why = "nested too deeply to read" if "nested" in str(error) else "with a number too long to read"
        raise ResponsePathError(f"the answer is JSON {why}") from None


def _get_member(value: Any, key: str, path: str) -> Any:
    if not isinstance(value, dict):
        raise ResponsePathError(f"{path or 'the answer'} is {_describe_kind(value)}, so it has no key {key}")
    if key not in value:
        raise ResponsePathError(f"{path or 'the answer'} has no key {key} ({_list_keys(value)})")
    return value[key]


def _get_item(value: Any, position: int, path: str) -> Any:
    if not isinstance(value, list):
        raise ResponsePathError(f"{path} is {_describe_kind(value)}, so it has no item [{position}]")
    if position >= len(value):
        raise ResponsePathError(
            f"{path} is a list of {format_count(len(value), 'items')}, so it has no item [{position}]"
        )
    return value[position]


def _describe_kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object ({_list_keys(value)})"
    if isinstance(value, list):
        return f"a list of {format_count(len(value), 'items')}"
    return {str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _list_keys(value: dict[str, Any]) -> str:
    if not value:
        return "it has no keys"
    names = [excerpt(key, _SHOWN_KEY) for key in islice(value, _SHOWN_KEYS)]
    if len(value) > _SHOWN_KEYS:
        names.append(f"and {len(value) - _SHOWN_KEYS} more")
    return f"keys: {', '.join(names)}"
