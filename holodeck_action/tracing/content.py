"""Inputs and outputs as they may leave the machine: without secrets, without what the suite's patterns find, cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from holodeck_action.text.redaction import MASK, Redactor

if TYPE_CHECKING:
    import regex

PATTERN_SECONDS = 0.25
"""Longest time that the patterns may work on one value. It is spent at most once in a run: see `Content`."""
TEXT_CHARS = 8_000
"""Characters of one text that are kept."""
VALUE_CHARS = 32_000
"""Characters of one value, as JSON, that are kept."""


class Content:
    """Makes attributes of inputs and outputs.

    A pattern that runs out of time is not tried again: from then on nothing of inputs and outputs is kept, since
    nobody knows what the pattern would have found.
    """

    def __init__(self, redactor: Redactor, patterns: Sequence[str]) -> None:
        """Compile the patterns.

        Args:
            redactor: knows the secrets.
            patterns: regular expressions that compile; what they match becomes `***`.
        """
        self._redactor = redactor
        self._patterns = _compiled(patterns)
        self.slow: str | None = None
        """The pattern that ran out of time; None when none did."""

    def text(self, value: Any) -> str:
        """Return a JSON value as the text of an attribute: a text as it is, anything else as JSON.

        Of a list that is too long the last entries are kept: in a conversation, what was said last.
        """
        cleaned = self._clean(value)
        if isinstance(cleaned, str):
            return cleaned
        if isinstance(cleaned, list):
            return _last_of(cleaned)
        return _json(cleaned)[:VALUE_CHARS]

    def _clean(self, value: Any) -> Any:
        value = self._redactor.value(value)
        if self._patterns:
            # One budget for the whole value, however many texts it holds.
            value = self._without(value, perf_counter() + PATTERN_SECONDS)
            if self.slow is not None:
                return MASK
        return _cut(value)

    def _without(self, value: Any, until: float) -> Any:
        if isinstance(value, str):
            return self._replaced(value, until)
        if isinstance(value, list | tuple):
            return [self._without(item, until) for item in value]
        if isinstance(value, dict):
            return {self._replaced(str(key), until): self._without(item, until) for key, item in value.items()}
        return value

    def _replaced(self, text: str, until: float) -> str:
        for pattern in self._patterns:
            left = until - perf_counter()
            if self.slow is not None or left <= 0:
                self.slow = self.slow or pattern.pattern
                return MASK
            try:
                text = pattern.sub(MASK, text, timeout=left)
            except TimeoutError:
                self.slow = pattern.pattern
                return MASK
        return text


def _compiled(patterns: Sequence[str]) -> list[regex.Pattern[str]]:
    if not patterns:
        return []
    # Only suites with patterns pay for the import.
    import regex

    return [regex.compile(pattern) for pattern in patterns]


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARS else f"{value[:TEXT_CHARS]}… ({len(value):,} characters)"
    if isinstance(value, list | tuple):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    return value


def _last_of(items: list[Any]) -> str:
    kept: list[str] = []
    left = VALUE_CHARS
    for item in reversed(items):
        text = _json(item)
        left -= len(text)
        if left < 0:
            break
        kept.append(text)
    return f"[{', '.join(reversed(kept))}]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
