"""What all providers' shapes share: times, ids, server-sent events."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.llm.models.tokens import split
from tests.llm.models.values import Answer, Request, ToolCall

CREATED = 1_793_620_800
"""When everything is made, in seconds since 1970: the fake's answers hold no real time, so runs can be compared."""


def numbered(prefix: str, request: Request, length: int = 24) -> str:
    """Return an id that is the same in every run."""
    return f"{prefix}{request.number:0{length}d}"


def call_id(prefix: str, request: Request, call: ToolCall, index: int) -> str:
    """Return a tool call's id."""
    return call.id or f"{prefix}{request.number:020d}{index:02d}"


def encoded(value: Any) -> bytes:
    """Return compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def event(value: Any, name: str | None = None) -> bytes:
    """Return a server-sent event."""
    return (b"event: %s\n" % name.encode() if name else b"") + b"data: %s\n\n" % encoded(value)


def pieces(text: str, tokens: int = 3) -> list[str]:
    """Return a text in pieces of a few tokens, as streams bring it."""
    parts = split(text)
    return ["".join(parts[at : at + tokens]) for at in range(0, len(parts), tokens)]


def vectors(request: Request, answer: Answer, dimensions: int) -> Sequence[Sequence[float]]:
    """Return a vector of length 1 for each input: the same for the same words, near for texts that share words."""
    if answer.vectors is not None:
        return answer.vectors
    return [_bag_of_words(text, dimensions) for text in request.inputs]


def packed(vector: Iterable[float]) -> str:
    """Return a vector as OpenAI's base64: little-endian floats of four bytes."""
    numbers = list(vector)
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


_TEXTS = ("text", "input_text", "output_text")


def text_of(content: Any) -> tuple[str, int]:
    """Return the text of a message's content (a text, or parts) and how many images are with it."""
    if content is None or isinstance(content, str):
        return content or "", 0
    if isinstance(content, Mapping):
        content = [content]
    texts = [part.get("text", "") for part in content if part.get("type") in _TEXTS]
    images = sum(part.get("type") in ("image", "image_url", "input_image") for part in content)
    return "\n".join(texts), images


def _bag_of_words(text: str, dimensions: int) -> list[float]:
    counts = [0.0] * dimensions
    for word in text.lower().split():
        # Python's own hash of texts differs from process to process.
        counts[sum(byte * 31**at for at, byte in enumerate(word.encode())) % dimensions] += 1.0
    length = sum(count * count for count in counts) ** 0.5
    return [count / length for count in counts] if length else [1.0] + [0.0] * (dimensions - 1)
