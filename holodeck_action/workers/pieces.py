"""Replies that a callable yields in pieces (used inside the worker process)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from holodeck_action.workers.code_errors import CallError


def is_streamed(value: object) -> bool:
    """Return whether a callable's result is an iterator, sync or async."""
    return hasattr(type(value), "__next__") or hasattr(type(value), "__anext__")


def collect_reply(values: Any, wait_for: Callable[[Any], Any], begun: float, max_bytes: int) -> dict[str, Any]:
    """Consume the pieces of a reply, and return the whole reply.

    Args:
        values: iterator over strings or `{delta: string}`; the whole reply may follow as last item, or as a generator's
            return value.
        wait_for: waits for an awaitable and returns its result.
        begun: start of the call, in seconds of the monotonic clock.
        max_bytes: maximum size of all pieces together, in bytes.

    Raises:
        CallError: a piece is invalid (code `bad_reply`), or the pieces are too large (`too_large`).
    """
    pieces = _Pieces(begun, max_bytes)
    if hasattr(type(values), "__anext__"):
        # In one task, so that the callable's contexts are closed in the task that opened them.
        wait_for(_take_all(values, pieces))
    else:
        while True:
            try:
                value = next(values)
            except StopIteration as end:
                if end.value is not None:
                    pieces.take(end.value)
                break
            pieces.take(value)
    return pieces.reply()


async def _take_all(values: AsyncIterator[Any], pieces: _Pieces) -> None:
    try:
        async for value in values:
            pieces.take(value)
    finally:
        close = getattr(values, "aclose", None)
        if close is not None:
            await close()


class _Pieces:
    def __init__(self, begun: float, max_bytes: int) -> None:
        self._begun = begun
        self._max_bytes = max_bytes
        self._size = 0
        self._texts: list[str] = []
        self._first_ms: float | None = None
        self._reply: Mapping[str, Any] | None = None

    def take(self, value: object) -> None:
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
