"""A case of a converted suite while it is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from holodeck_action.extensions.importers.promptfoo.tests import Test, WrittenAssertion


class BuiltCase(Struct):
    """A case, to which assertions are added one by one."""

    name: str
    test: Test
    prompt: str
    turn: dict[str, Any]
    conversation: str | None = None
    said: Sequence[tuple[str, str]] = ()
    metrics: list[dict[str, Any]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    latencies: list[tuple[WrittenAssertion, float]] = field(default_factory=list)
