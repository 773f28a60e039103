"""Reads the accepted requests per second from the headers of a refusal (HTTP 429).

OpenAI and Azure OpenAI send `x-ratelimit-limit-requests`, `-remaining-requests` and `-reset-requests`, the time until
all requests are available again (https://developers.openai.com/api/docs/guides/rate-limits). Anthropic sends
`anthropic-ratelimit-requests-limit`, `-remaining` and `-reset`, a date
(https://platform.claude.com/docs/en/api/rate-limits). Both describe a token bucket, which refills evenly until the
reset.
"""

from __future__ import annotations

import re
from datetime import datetime

from holodeck_action.llm.calls import Answer
from holodeck_action.llm.limits.window import MAX_RATE, MIN_RATE
from holodeck_action.llm.outcomes import header
from holodeck_action.text.lazy_patterns import lazy_pattern

_COUNT = lazy_pattern(r"[0-9]{1,9}", re.ASCII)
_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_SECONDS = lazy_pattern(_NUMBER, re.ASCII)
_DURATION = lazy_pattern(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?", re.ASCII)
_UNITS_S = (3_600.0, 60.0, 1.0, 0.001)


def stated_rate(answer: Answer, now: datetime) -> float | None:
    """Return the requests per second that an account accepts according to the headers of a refusal.

    Args:
        answer: the refusal.
        now: the current time in UTC.

    Returns:
        The requests per second. None if the headers are missing, invalid or implausible, or if requests remain: the
        refusal then has another cause, such as the limit of tokens.
    """
    for name in ("x-ratelimit-{}-requests", "anthropic-ratelimit-requests-{}"):
        most, left = header(answer, name.format("limit")), header(answer, name.format("remaining"))
        if not _COUNT.fullmatch(most) or not _COUNT.fullmatch(left) or int(left):
            continue
        seconds = _reset_seconds(header(answer, name.format("reset")), now)
        if seconds is not None and seconds > 0 and MIN_RATE * seconds <= int(most) <= MAX_RATE * seconds:
            return int(most) / seconds
    return None


def _reset_seconds(text: str, now: datetime) -> float | None:
    """Return the seconds until a reset, given as `1.5`, `6m0s`, `120ms` or a date with time zone; None if invalid."""
    if _SECONDS.fullmatch(text):
        return float(text)
    found = _DURATION.fullmatch(text)
    if found is not None and text:
        return sum(float(part or 0) * unit for part, unit in zip(found.groups(), _UNITS_S, strict=True))
    try:
        at = datetime.fromisoformat(text)
        return None if at.tzinfo is None else (at - now).total_seconds()
    except (ValueError, OverflowError):
        return None
