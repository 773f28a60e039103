"""Classifies HTTP answers of providers: complete or broken, retryable, storable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from holodeck_action.llm.calls import Answer, WireError
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern


class StatusMeaning(NamedTuple):
    """The meaning of an unsuccessful HTTP status.

    Attributes:
        code: the code of the error (see `errors.ModelCallError`).
        retried: whether the same request may succeed later.
        throttles: whether fewer requests would help.
        away: whether the server is away: it starts, or a gateway does not reach it.
    """

    code: str
    retried: bool = False
    throttles: bool = False
    away: bool = False


_MEANINGS: Mapping[int, StatusMeaning] = {
    **dict.fromkeys((400, 413, 422), StatusMeaning("bad_request")),
    **dict.fromkeys((401, 403), StatusMeaning("authentication")),
    402: StatusMeaning("quota"),
    404: StatusMeaning("model_not_found"),
    408: StatusMeaning("timeout", retried=True),
    409: StatusMeaning("http_status", retried=True),
    429: StatusMeaning("rate_limited", retried=True, throttles=True),
    **dict.fromkeys((501, 505), StatusMeaning("server_error")),
    **dict.fromkeys((502, 504), StatusMeaning("server_error", retried=True, away=True)),
    503: StatusMeaning("overloaded", retried=True, away=True),
    529: StatusMeaning("overloaded", retried=True, throttles=True),
}
"""Anthropic's 529 is `overloaded_error`."""
MAX_RETRY_AFTER_S = 120.0
"""Longest Retry-After in seconds that is considered plausible."""
# OpenAI sends these codes with status 429, like a rate limit, but a retry cannot succeed before a payment.
_UNPAID_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "access_terminated"}
)
_TRANSIENT_ERRORS = frozenset(
    {
        *("overloaded_error", "api_error", "rate_limit_error", "timeout_error", "server_error"),
        *("internal_server_error", "rate_limit_exceeded"),
    }
)
"""Errors inside a stream for which a retry may succeed."""
_STREAMS = frozenset({"text/event-stream", "application/x-ndjson"})
_EVENT_KEYS = frozenset({"choices", "done", "error", "message", "type"})
"""Keys by which the events of a stream are recognised; each event of every provider's API has at least one of them."""
RESPONSES_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
"""Types of the events that end a stream of OpenAI's Responses API; each has the complete answer."""
NAMES_RESPONSES = lazy_pattern(r"\bv1/responses\b|\bresponses api\b", re.IGNORECASE)
"""Matches the words with which a service that refuses a chat completion names the Responses API."""
_CHARSET = lazy_pattern(r"charset=[\"']?([\w.:-]+)", re.IGNORECASE)


def parse(content_type: str, body: bytes) -> Any:
    """Parse an answer's body.

    Args:
        content_type: value of the header Content-Type, in upper or lower case.
        body: the decompressed body.

    Returns:
        A JSON value; for a stream of events (SSE, or one JSON value per line) the list of its values.

    Raises:
        ValueError: the body is not JSON.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return [_parse_value(data) for data in _event_data(body.decode("utf-8", "replace")) if data != "[DONE]"]
    if kind == "application/x-ndjson":
        return [_parse_value(_decode(line)) for line in body.splitlines() if line.strip()]
    return _parse_value(_decode(body))


def parse_complete(content_type: str, body: bytes, label: str) -> Any:
    """Parse the body of a successful answer, and check that it is complete.

    Args:
        content_type: value of the header Content-Type.
        body: the decompressed body.
        label: the account's name in messages.

    Returns:
        See `parse`.

    Raises:
        WireError: `malformed`, `truncated` or `stream_error`.
    """
    try:
        payload = parse(content_type, body)
    except ValueError:
        raise WireError(
            f"{label} answered with a body that is not in the expected JSON form", "malformed", retry_worthy=True
        ) from None
    if isinstance(payload, Mapping) and payload.get("object") == "response" and payload.get("status") == "failed":
        raise _stream_error(payload.get("error"), label)
    # Any other complete JSON value is returned, because a retry would give the same one.
    if not isinstance(payload, list) or content_type.partition(";")[0].strip().lower() not in _STREAMS:
        return payload
    if not payload and body.strip():
        return _parse_whole(body, label)
    if payload and not any(isinstance(event, Mapping) and _EVENT_KEYS & event.keys() for event in payload):
        return payload
    done = content_type.lower().startswith("text/event-stream") and b"[DONE]" in body
    for event in payload:
        if not isinstance(event, Mapping):
            continue
        if error := _event_error(event):
            raise _stream_error(error, label)
        done = done or event.get("done") is True or _is_last_event(event)
    if not done:
        raise WireError(f"{label} aborted its answer before the end", "truncated", retry_worthy=True)
    return payload


def _event_error(event: Mapping[str, Any]) -> Any:
    """Return the error in an event; None if it has none. Events of the Responses API of type `error` are one."""
    response = event.get("response")
    if isinstance(response, Mapping) and response.get("error"):
        return response["error"]
    own = {"code": event.get("code")} if event.get("type") == "error" and "code" in event else None
    return event.get("error") or own


def _stream_error(error: Any, label: str) -> WireError:
    name = _error_name(error)
    return WireError(
        f"{label} aborted its answer with an error{f' ({name})' if name else ''}",
        "stream_error",
        retry_worthy=not name or name in _TRANSIENT_ERRORS,
    )


def _parse_whole(body: bytes, label: str) -> Any:
    """Return the single JSON value of a body without events.

    Raises:
        WireError: `truncated`: the body is not JSON.
    """
    try:
        return _parse_value(_decode(body))
    except ValueError:
        raise WireError(f"{label} aborted its answer before the end", "truncated", retry_worthy=True) from None


def meaning_of(status: int) -> StatusMeaning:
    """Return the meaning of an unsuccessful HTTP status."""
    other = StatusMeaning("server_error", retried=True) if status >= 500 else StatusMeaning("http_status")
    return _MEANINGS.get(status, other)


def is_away(outcome: Answer | WireError) -> bool:
    """Return whether the outcome of an attempt means that the server is away, so that it may come back."""
    if isinstance(outcome, WireError):
        return outcome.code in ("connect", "disconnected")
    return meaning_of(outcome.status).away


def is_retryable(answer: Answer) -> bool:
    """Return whether the same request may succeed later."""
    if answer.status < 400:
        return False
    if error_name(answer) in _UNPAID_CODES:
        return False
    wish = header(answer, "x-should-retry")
    if wish in ("true", "false"):
        return wish == "true"
    return meaning_of(answer.status).retried


def is_throttled(answer: Answer) -> bool:
    """Return whether the same request may succeed later if fewer requests are sent."""
    waits = meaning_of(answer.status).throttles or (answer.status == 503 and header(answer, "retry-after"))
    return bool(waits) and is_retryable(answer)


def error_name(answer: Answer) -> str:
    """Return the provider's name of an error, such as `insufficient_quota`; empty if the body names no error."""
    payload = answer.payload
    return _error_name(payload.get("error")) if isinstance(payload, Mapping) else ""


def retry_after(answer: Answer, now: datetime) -> float | None:
    """Return the waiting time in seconds that the provider requests; None if the header is missing or implausible.

    Reads `retry-after-ms`, and `retry-after` in seconds or as a date. Dates are compared with the answer's own `date`,
    since clocks differ. Times in the past and beyond `MAX_RETRY_AFTER_S` are implausible.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = header(answer, name)
        try:
            seconds = float(text) * scale
        except ValueError:
            continue
        return _plausible_wait(seconds)
    at = _parse_date(header(answer, "retry-after"))
    if at is None:
        return None
    return _plausible_wait((at - (_parse_date(header(answer, "date")) or now)).total_seconds())


def is_storable(answer: Answer) -> bool:
    """Return whether an answer may be stored: it is successful, and no content filter cut it."""
    return answer.status < 300 and not any("content_filter" in reasons for reasons in _stop_reasons(answer.payload))


def is_refusal(answer: Answer) -> bool:
    """Return whether the model declined to answer."""
    return any("refusal" in reasons for reasons in _stop_reasons(answer.payload))


def error_payload(answer: Answer) -> Any:
    """Return the body of an unsuccessful answer as a JSON value, or as text if it is not JSON."""
    named = _CHARSET.search(header(answer, "content-type"))
    # The charset may be unknown, or not for text: `idna` fails, `punycode` returns nothing.
    text = ""
    with suppress(LookupError, UnicodeError):
        text = answer.body.decode(named[1] if named else "utf-8", "replace").strip()
    text = text or answer.body.decode("utf-8", "replace").strip()
    try:
        return _parse_value(text)
    except ValueError:
        return text


def error_object(body: Any) -> Mapping[str, Any]:
    """Return the error object in the body of an unsuccessful answer; empty if there is no error object."""
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def error_message(body: Any) -> str | None:
    """Return the provider's message in the body of an unsuccessful answer; None if there is none."""
    for source in (body.get("error") if isinstance(body, Mapping) else None, body):
        message = source.get("message") if isinstance(source, Mapping) else source
        if isinstance(message, str):
            return message
    return None


def _decode(body: bytes) -> str:
    # Providers send any JSON encoding, and lone surrogates.
    return body.decode(json.detect_encoding(body), "surrogatepass")


def _parse_value(text: str) -> Any:
    return parse_json(text, constants=True)


def header(answer: Answer, name: str) -> str:
    """Return the value of a header; empty if the header is missing. `name` must be in lower case."""
    return next((value for key, value in answer.headers if key == name), "")


def _plausible_wait(seconds: float) -> float | None:
    return seconds if 0 <= seconds <= MAX_RETRY_AFTER_S else None


def _event_data(text: str) -> Iterator[str]:
    for block in text.replace("\r\n", "\n").split("\n\n"):
        data = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if data:
            yield "\n".join(data)


def _is_last_event(event: Mapping[str, Any]) -> bool:
    if event.get("type") == "message_stop" or str(event.get("type")) in RESPONSES_ENDS:
        return True
    choices = event.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, Mapping) and choice.get("finish_reason") for choice in choices
    )


def _stop_reasons(payload: Any) -> Iterator[tuple[str, ...]]:
    """Yield the stop reasons of an answer's choices; the stop reason of a refusal is `refusal` for every provider."""
    for event in payload if isinstance(payload, list) else [payload]:
        if not isinstance(event, Mapping):
            continue
        yield from _response_reasons(event.get("response", event))
        delta = event.get("delta")
        for holder in (event, delta):
            if isinstance(holder, Mapping) and holder.get("stop_reason"):
                yield (str(holder["stop_reason"]),)
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, Mapping):
                parts = [choice.get("message"), choice.get("delta")]
                declined = any(isinstance(part, Mapping) and part.get("refusal") for part in parts)
                yield (str(choice.get("finish_reason")), "refusal" if declined else "")


def _response_reasons(answer: Any) -> Iterator[tuple[str, ...]]:
    """Yield the stop reasons of an answer of the Responses API."""
    details = answer.get("incomplete_details") if isinstance(answer, Mapping) else None
    if isinstance(details, Mapping):
        yield (str(details.get("reason")),)
    output = answer.get("output") if isinstance(answer, Mapping) else None
    for item in output if isinstance(output, list) else ():
        content = item.get("content") if isinstance(item, Mapping) else None
        parts = content if isinstance(content, list) else ()
        if any(isinstance(part, Mapping) and part.get("type") == "refusal" for part in parts):
            yield ("refusal",)


def _error_name(error: Any) -> str:
    if not isinstance(error, Mapping):
        return ""
    # OpenAI's `code` is more specific than its `type`; Anthropic has only a type.
    name = error.get("code") or error.get("type")
    return name if isinstance(name, str) and name.isascii() and name.isprintable() and len(name) <= 60 else ""


def _parse_date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None
