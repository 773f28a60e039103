"""Responses of GitHub: what is usable, and the reasons of those that refuse a request.

This module imports httpx2: import it only where GitHub is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import httpx2

from holodeck_action.github.rest.connection import TooLargeError, TooSlowError, read_body
from holodeck_action.github.rest.objects import ErrorKind, ShapeError
from holodeck_action.github.rest.payload import is_hash, is_number
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.json_values import parse_json

_ERROR_BYTES = 64 * 1024
_ERROR_S = 15.0
_REASONS = 5


def is_refusal(method: str, status: int) -> bool:
    """Return whether GitHub refused a request, failed, or is still computing the response (202)."""
    return status >= 400 or (status == 202 and method == "GET")


def usable_answer(text: str, method: str, *, is_query: bool) -> Any:
    """Return the JSON of a body: an object of GitHub, a list of such, or the answer to a GraphQL query.

    PyGithub takes any JSON and fails, or asks again, when a missing field is read. Each object that the program uses
    has an `id`, a `sha` or a `filename`, itself or in an object inside it.

    Raises:
        ShapeError: it is something else.
    """
    try:
        data = parse_json(text)
    except ValueError:
        raise ShapeError("it is not JSON") from None
    if is_query:
        if not isinstance(data, dict) or not (isinstance(data.get("data"), dict) or data.get("errors")):
            raise ShapeError("it has no `data`")
        return data
    if method != "GET" and not isinstance(data, dict):
        raise ShapeError("it is not an object")
    lists = [value for value in data.values() if isinstance(value, list)] if _is_wrapped(data) else [data]
    for listed in lists:
        for item in listed if isinstance(listed, list) else [listed]:
            if not _is_identified(item):
                raise ShapeError("it has neither `id` nor `sha`")
    return data


def _is_wrapped(data: Any) -> bool:
    return isinstance(data, dict) and "id" not in data and "total_count" in data


def _is_identified(item: Any) -> bool:
    if not isinstance(item, dict):
        raise ShapeError("it is not an object")
    number, sha = item.get("id"), item.get("sha")
    if number is not None and not is_number(number):
        raise ShapeError("`id` is not a number of at least 1")
    if sha is not None and not is_hash(sha):
        raise ShapeError("`sha` is not a hash")
    if number is not None or sha is not None or isinstance(item.get("filename"), str):
        return True
    return any(_is_identified(value) for value in item.values() if isinstance(value, dict))


def error_message(response: httpx2.Response, monotonic: Callable[[], float]) -> str:
    """Return the reason in an error response, or else the phrase of its HTTP status; the text is untrusted."""
    try:
        data = parse_json(Foreign(read_body(response, _ERROR_BYTES, _ERROR_S, monotonic)).lossy_text())
    except (httpx2.RequestError, TooLargeError, TooSlowError, ValueError):
        data = None
    parts: list[str] = []
    if isinstance(data, Mapping):
        errors = data.get("errors")
        reasons = errors[:_REASONS] if isinstance(errors, list) else []
        reasons = [reason.get("message") if isinstance(reason, Mapping) else reason for reason in reasons]
        parts = [text for text in (data.get("message"), *reasons) if isinstance(text, str) and text.strip()]
    if parts:
        return "; ".join(parts)
    try:
        return HTTPStatus(response.status_code).phrase
    except ValueError:
        return "no reason given"


def error_kind(status: int) -> ErrorKind:
    """Return the kind of error for an HTTP status of 400 or more."""
    if status in (401, 403):
        return "denied"
    if status in (404, 410):
        return "not_found"
    return "invalid" if 400 <= status < 500 and status != 408 else "unavailable"
