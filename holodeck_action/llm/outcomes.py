"""What an answer means: usable, broken, worth another try, worth keeping."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from holodeck_action.llm.calls import Answer, WireError
from holodeck_action.text.json_values import parse_json

CONGESTED = frozenset({429, 529})
"""Statuses that say that the account sends too much: Anthropic's 529 is `overloaded_error`."""
LONGEST_WAIT_S = 120.0
"""Seconds that a provider's Retry-After may ask for; a longer one is not believed."""
_RETRIED = frozenset({408, 409, 429})
# Trying again changes nothing until somebody pays; OpenAI sends these as 429, like a rate limit.
_UNPAID = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "access_terminated"})
_PASSING = frozenset(
    {"overloaded_error", "api_error", "rate_limit_error", "timeout_error", "server_error", "internal_server_error"}
)
"""Errors inside a stream that another try may not meet."""
_STREAMS = frozenset({"text/event-stream", "application/x-ndjson"})
_SHAPE = frozenset({"choices", "done", "error", "message", "type"})
"""Keys by which the events of a stream are known: at least one of them stands in each event of every interface."""
_CHARSET = re.compile(r"charset=[\"']?([\w.:-]+)", re.IGNORECASE)


def parse(content_type: str, body: bytes) -> Any:
    """Return an answer's body as JSON values.

    Args:
        content_type: the header, in any case.
        body: unpacked.

    Returns:
        A JSON value; for a stream of events (SSE, or one JSON value per line) the list of them.

    Raises:
        ValueError: it is not JSON.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return [_value(data) for data in _events(body.decode("utf-8", "replace")) if data != "[DONE]"]
    if kind == "application/x-ndjson":
        return [_value(_decoded(line)) for line in body.splitlines() if line.strip()]
    return _value(_decoded(body))


def check(content_type: str, body: bytes, label: str) -> Any:
    """Parse the body of a successful answer and see that it is whole.

    Args:
        content_type: the header.
        body: unpacked.
        label: who answered, for messages.

    Returns:
        What `parse` returns.

    Raises:
        WireError: `malformed`, `truncated` or `stream_error`.
    """
    try:
        payload = parse(content_type, body)
    except ValueError:
        raise WireError(
            f"{label} answered with a body that is not the JSON of its interface", "malformed", retry_worthy=True
        ) from None
    # What is whole, and no stream of events of an interface, would come again if it were asked for again.
    if not isinstance(payload, list) or content_type.partition(";")[0].strip().lower() not in _STREAMS:
        return payload
    if not payload and body.strip():
        return _whole(body, label)
    if payload and not any(isinstance(event, Mapping) and _SHAPE & event.keys() for event in payload):
        return payload
    done = content_type.lower().startswith("text/event-stream") and b"[DONE]" in body
    for event in payload:
        if not isinstance(event, Mapping):
            continue
        error = event.get("error")
        if error:
            name = _name(error)
            raise WireError(
                f"{label} broke off its answer with an error{f' ({name})' if name else ''}",
                "stream_error",
                retry_worthy=not name or name in _PASSING,
            )
        done = done or event.get("type") == "message_stop" or event.get("done") is True or _finished(event)
    if not done:
        raise WireError(f"{label} broke off its answer before the end", "truncated", retry_worthy=True)
    return payload


def _whole(body: bytes, label: str) -> Any:
    """Return what a body without events holds as one JSON value.

    Raises:
        WireError: `truncated`: it is none.
    """
    try:
        return _value(_decoded(body))
    except ValueError:
        raise WireError(f"{label} broke off its answer before the end", "truncated", retry_worthy=True) from None


def retry_worthy(answer: Answer) -> bool:
    """Tell whether the same request may succeed later."""
    if answer.status < 400:
        return False
    if error_name(answer) in _UNPAID:
        return False
    wish = header(answer, "x-should-retry")
    if wish in ("true", "false"):
        return wish == "true"
    return answer.status in _RETRIED or (answer.status >= 500 and answer.status not in (501, 505))


def congested(answer: Answer) -> bool:
    """Tell whether the account was refused for sending too much at once."""
    return answer.status in CONGESTED and error_name(answer) not in _UNPAID


def held_off(answer: Answer) -> bool:
    """Tell whether the same request may succeed once the account is sent less, or later."""
    waits = congested(answer) or (answer.status == 503 and bool(header(answer, "retry-after")))
    return waits and retry_worthy(answer)


def error_name(answer: Answer) -> str:
    """Return the provider's name of an error, such as `insufficient_quota`; empty when it has none."""
    payload = answer.payload
    return _name(payload.get("error")) if isinstance(payload, Mapping) else ""


def retry_after(answer: Answer, now: datetime) -> float | None:
    """Return how many seconds the provider asks to wait, None when it says nothing that can be believed.

    Reads `retry-after-ms`, and `retry-after` in seconds or as a date (counted from the answer's own `date`, since two
    clocks differ). Not believed are a time that is past and one beyond `LONGEST_WAIT_S`.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = header(answer, name)
        try:
            seconds = float(text) * scale
        except ValueError:
            continue
        return _believed(seconds)
    at = _date(header(answer, "retry-after"))
    if at is None:
        return None
    return _believed((at - (_date(header(answer, "date")) or now)).total_seconds())


def kept(answer: Answer) -> bool:
    """Tell whether an answer may be stored: a success that no content filter cut."""
    return answer.status < 300 and not any("content_filter" in reasons for reasons in _reasons(answer.payload))


def refused(answer: Answer) -> bool:
    """Tell whether the model declined to answer."""
    return any("refusal" in reasons for reasons in _reasons(answer.payload))


def refusal_of(answer: Answer) -> Any:
    """Return the body of an answer that is no success as a JSON value, or as text where it is none."""
    named = _CHARSET.search(header(answer, "content-type"))
    try:
        text = answer.body.decode(named[1] if named else "utf-8", "replace").strip()
    except (LookupError, UnicodeError):
        # There is none of that name, or it is one for names of hosts.
        text = answer.body.decode("utf-8", "replace").strip()
    try:
        return _value(text)
    except ValueError:
        return text


def _decoded(body: bytes) -> str:
    # As providers send it: in any of the encodings of JSON, with halves of characters.
    return body.decode(json.detect_encoding(body), "surrogatepass")


def _value(text: str) -> Any:
    return parse_json(text, constants=True)


def header(answer: Answer, name: str) -> str:
    """Return a header's value, empty when it is missing; `name` in lower case."""
    return next((value for key, value in answer.headers if key == name), "")


def _believed(seconds: float) -> float | None:
    return seconds if 0 <= seconds <= LONGEST_WAIT_S else None


def _events(text: str) -> Iterator[str]:
    for block in text.replace("\r\n", "\n").split("\n\n"):
        data = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if data:
            yield "\n".join(data)


def _finished(event: Mapping[str, Any]) -> bool:
    choices = event.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, Mapping) and choice.get("finish_reason") for choice in choices
    )


def _reasons(payload: Any) -> Iterator[tuple[str, ...]]:
    """Yield why the parts of an answer ended; `refusal` stands for every provider's own way of saying it."""
    for event in payload if isinstance(payload, list) else [payload]:
        if not isinstance(event, Mapping):
            continue
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


def _name(error: Any) -> str:
    if not isinstance(error, Mapping):
        return ""
    # OpenAI's `code` says more than its `type`; Anthropic has only a type.
    name = error.get("code") or error.get("type")
    return name if isinstance(name, str) and name.isascii() and name.isprintable() and len(name) <= 60 else ""


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None
