"""What comes back from GitHub, or does not: bodies within bounds, and why a request failed.

This module imports httpx2: import it only where GitHub is asked.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import httpx2
from msgspec import Struct

from holodeck_action.github.rest.objects import ErrorKind, ShapeError
from holodeck_action.text.foreign import Foreign, ForeignError

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
    """The body is longer than it may be."""


class TooSlowError(Exception):
    """The body comes in drops."""


def body_of(response: httpx2.Response, most: int, within_s: float) -> Foreign:
    """Return a body, decompressed, of at most so many bytes.

    The seconds are for all of it: a limit for each piece alone would let drops go on for ever.

    Raises:
        TooLargeError, TooSlowError: it is, or does.
    """
    data = bytearray()
    end = time.monotonic() + within_s
    for piece in response.iter_bytes():
        data += piece
        if len(data) > most:
            raise TooLargeError
        if time.monotonic() > end:
            raise TooSlowError
    return Foreign(bytes(data))


def _error_content(response: httpx2.Response) -> Foreign:
    try:
        return body_of(response, _ERROR_BYTES, _ERROR_S)
    except (httpx2.RequestError, TooLargeError, TooSlowError):
        return Foreign(b"")


def json_of(content: Foreign) -> Any:
    """Return the JSON of a body.

    Raises:
        ShapeError: it is none.
    """
    try:
        # Half a character in a text costs that character, not the answer.
        return content.lossy_json()
    except ForeignError:
        raise ShapeError("it is no JSON") from None


def message_of(response: httpx2.Response) -> str:
    """Return what an answer says about why not: hostile text, or the name of the status when it says nothing."""
    try:
        data = json_of(_error_content(response))
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
    """Why GraphQL did not answer; the message is hostile."""

    kind: ErrorKind
    message: str


def graphql_refusal(answer: Any) -> GraphqlRefusal | None:
    """Return why GraphQL did not answer; None where it did.

    Raises:
        ShapeError: it is no answer of GraphQL.
    """
    if not isinstance(answer, dict):
        raise ShapeError("it is no object")
    errors = answer.get("errors")
    for error in errors if isinstance(errors, list) else []:
        kind = error.get("type") if isinstance(error, dict) else None
        # An id that is gone is told of as an error, and as a null among the nodes.
        if kind == "NOT_FOUND" and answer.get("data"):
            continue
        message = error.get("message") if isinstance(error, dict) else None
        text = message if isinstance(message, str) else "no reason given"
        return GraphqlRefusal(_GRAPHQL_KINDS.get(kind, "invalid") if isinstance(kind, str) else "invalid", text)
    return None


def loss(error: Exception) -> tuple[str, bool]:
    """Return what happened to a request without an answer, and whether GitHub may have got it."""
    if isinstance(error, httpx2.ProxyError):
        return "the proxy cannot be used", False
    if is_untrusted(error):
        return "its certificate is not trusted here", False
    if isinstance(error, httpx2.ConnectTimeout):
        return "no connection could be made in time", False
    if isinstance(error, httpx2.ConnectError):
        return "no connection could be made", False
    if isinstance(error, httpx2.TimeoutException | TooSlowError):
        return "the answer did not come in time", True
    return "the connection broke off before the answer", True


def is_untrusted(error: BaseException | None) -> bool:
    """Tell whether a connection failed by a certificate."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def kind_of(status: int) -> ErrorKind:
    """Return what an HTTP status of 400 or more means for the caller."""
    if status in (401, 403):
        return "denied"
    if status in (404, 410):
        return "not_found"
    return "invalid" if 400 <= status < 500 and status != 408 else "unavailable"
