"""Replies that a callable yields in parts (used inside the worker process)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from holodeck_action.workers.code_errors import CallError


def is_streamed(value: object) -> bool:
    """Return whether a callable's result is an iterator, sync or async."""
    return hasattr(type(value), "__next__") or hasattr(type(value), "__anext__")


def collect_reply(values: Any, wait_for: Callable[[Any], Any], started: float, max_bytes: int) -> dict[str, Any]:
    """Consume the parts of a streamed reply, and return the complete reply.

    Args:
        values: iterator over the parts, each a string or `{delta: string}`. Its last item, or the return value of a
            generator, may be a reply object with further data.
        wait_for: returns the result of an awaitable.
        started: start of the call, in seconds of the monotonic clock.
        max_bytes: maximum total size of the parts, in bytes.

    Raises:
        CallError: a part is invalid (code `bad_reply`), or the parts are too large (`too_large`).
    """
    parts = _ReplyParts(started, max_bytes)
    if hasattr(type(values), "__anext__"):
        # In one task, so that the callable's contexts are closed in the task that opened them.
        wait_for(_add_all(values, parts))
    else:
        while True:
            try:
                value = next(values)
            except StopIteration as end:
                if end.value is not None:
                    parts.add(end.value)
                break
            parts.add(value)
    return parts.reply()


async def _add_all(values: AsyncIterator[Any], reply_parts: _ReplyParts) -> None:
    try:
        async for value in values:
            reply_parts.add(value)
    finally:
        close = getattr(values, "aclose", None)
        if close is not None:
            await close()


class _ReplyParts:
    def __init__(self, started: float, max_bytes: int) -> None:
        self._begun = started
        self._max_bytes = max_bytes
        self._size = 0
        self._texts: list[str] = []
        self._first_ms: float | None = None
        self._reply: Mapping[str, Any] | None = None

    def add(self, value: object) -> None:
        if self._reply is not None:
            raise CallError("bad_reply", "it yielded a value after its reply, which must come last")
        text = value["delta"] if isinstance(value, Mapping) and tuple(value) == ("delta",) else value
        if isinstance(text, Mapping) and text is value:
            self._reply = value
        elif not isinstance(text, str):
            raise CallError(
                "bad_reply", f"a part of its reply is of type {type(text).__name__} (allowed: text or {{delta: text}})"
            )
        else:
            self._size += len(text.encode("utf-8", "surrogatepass"))
            if self._size > self._max_bytes:
                raise CallError("too_large", f"the parts of its reply have more than {self._max_bytes} bytes")
            self._texts.append(text)
            if text and self._first_ms is None:
                self._first_ms = 1000 * (time.monotonic() - self._begun)

    def reply(self) -> dict[str, Any]:
        found = dict(self._reply or {})
        if self._texts and not {"response", "error"} & found.keys():
            found["response"] = "".join(self._texts)
        if found.get("first_token_ms") is None and self._first_ms is not None:
            found["first_token_ms"] = self._first_ms
        return found
