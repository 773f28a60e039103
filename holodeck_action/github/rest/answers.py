"""Responses of GitHub: reading bodies within limits, and explaining failed requests.

This module imports httpx2: import it only where GitHub is called.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import httpx2
from msgspec import Struct

from holodeck_action.github.rest.objects import ErrorKind, ShapeError
from holodeck_action.github.rest.payload import is_hash, is_number
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.json_values import parse_json

_ERROR_BYTES = 64 * 1024
_ERROR_S = 15.0
_REASONS = 5
_GRAPHQL_KINDS: Mapping[str, ErrorKind] = {
    "FORBIDDEN": "denied",
    "INSUFFICIENT_SCOPES": "denied",
    "RATE_LIMITED": "rate_limited",
    "RATE_LIMIT": "rate_limited",
    "NOT_FOUND": "not_found",
}


class TooLargeError(Exception):
    """The body is longer than its limit."""


class TooSlowError(Exception):
    """The body did not arrive within its time limit."""


def read_body(response: httpx2.Response, max_bytes: int, within_s: float, monotonic: Callable[[], float]) -> bytes:
    """Return the decompressed body of a response.

    Args:
        response: the response, whose body is not read yet.
        max_bytes: maximum number of bytes.
        within_s: time limit for the whole body in seconds, since a body with a limit only per read could arrive
            endlessly slowly.
        monotonic: returns monotonic seconds.

    Raises:
        TooLargeError: the body is longer than `max_bytes` bytes.
        TooSlowError: the body takes longer than `within_s`.
    """
    data = bytearray()
    end = monotonic() + within_s
    for piece in response.iter_bytes():
        data += piece
        if len(data) > max_bytes:
            raise TooLargeError
        if monotonic() > end:
            raise TooSlowError
    return bytes(data)


def _error_content(response: httpx2.Response, monotonic: Callable[[], float]) -> Foreign:
    try:
        return Foreign(read_body(response, _ERROR_BYTES, _ERROR_S, monotonic))
    except (httpx2.RequestError, TooLargeError, TooSlowError):
        return Foreign(b"")


def parse_body(text: str) -> Any:
    """Parse JSON with limits on nesting and on digits of numbers.

    Raises:
        ShapeError: the text is not valid JSON.
    """
    try:
        return parse_json(text)
    except ValueError:
        raise ShapeError("it is not JSON") from None


def check_shape(data: Any, method: str, *, is_query: bool) -> None:
    """Check that JSON is an object of GitHub, a list of such, or the answer to a GraphQL query.

    PyGithub takes any JSON and fails, or asks again, when a missing field is read. Each object that the program uses
    has an `id`, a `sha` or a `filename`, itself or in an object inside it.

    Raises:
        ShapeError: it is something else.
    """
    if is_query:
        if not isinstance(data, dict) or not (isinstance(data.get("data"), dict) or data.get("errors")):
            raise ShapeError("it has no `data`")
        return
    if method != "GET" and not isinstance(data, dict):
        raise ShapeError("it is not an object")
    lists = [value for value in data.values() if isinstance(value, list)] if _is_wrapped(data) else [data]
    for listed in lists:
        for item in listed if isinstance(listed, list) else [listed]:
            if not _is_identified(item):
                raise ShapeError("it has neither `id` nor `sha`")


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
        data = parse_body(_error_content(response, monotonic).lossy_text())
    except ShapeError:
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


class GraphqlRefusal(Struct, frozen=True):
    """The reason why GraphQL did not answer; the message is untrusted text."""

    kind: ErrorKind
    message: str


def graphql_refusal(answer: Any) -> GraphqlRefusal | None:
    """Return the first error in a GraphQL response, ignoring ids that no longer exist; None if there is no error.

    Raises:
        ShapeError: it is not a GraphQL response.
    """
    if not isinstance(answer, dict):
        raise ShapeError("it is not an object")
    errors = answer.get("errors")
    for error in errors if isinstance(errors, list) else []:
        kind = error.get("type") if isinstance(error, dict) else None
        # An id that is gone is reported as an error, and as a null among the nodes.
        if kind == "NOT_FOUND" and answer.get("data"):
            continue
        message = error.get("message") if isinstance(error, dict) else None
        text = message if isinstance(message, str) else "no reason given"
        return GraphqlRefusal(_GRAPHQL_KINDS.get(kind, "invalid") if isinstance(kind, str) else "invalid", text)
    return None


def describe_failure(error: Exception) -> tuple[str, bool]:
    """Return a clause on why a request got no response, and whether GitHub may have received the request."""
    if isinstance(error, httpx2.ProxyError):
        return "the proxy cannot be used", False
    if is_certificate_error(error):
        return "its certificate is not trusted here", False
    if isinstance(error, httpx2.ConnectTimeout):
        return "no connection could be made in time", False
    if isinstance(error, httpx2.ConnectError):
        return "no connection could be made", False
    if isinstance(error, httpx2.TimeoutException | TooSlowError):
        return "the answer did not arrive in time", True
    return "the connection ended early before the answer", True


def is_certificate_error(error: BaseException | None) -> bool:
    """Return whether a connection failed because its certificate is not trusted."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def error_kind(status: int) -> ErrorKind:
    """Return the kind of error for an HTTP status of 400 or more."""
    if status in (401, 403):
        return "denied"
    if status in (404, 410):
        return "not_found"
    return "invalid" if 400 <= status < 500 and status != 408 else "unavailable"
