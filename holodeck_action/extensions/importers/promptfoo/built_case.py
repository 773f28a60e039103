"""A case of a converted suite while it is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import field

from holodeck_action.extensions.importers.collecting import OpenCase
from holodeck_action.extensions.importers.promptfoo.tests import Test, WrittenAssertion


class BuiltCase(OpenCase, kw_only=True):
    """A case of a configuration."""

    test: Test
    prompt: str
    turn: dict[str, Any]
    conversation: str | None = None
    said: Sequence[tuple[str, str]] = ()
    latencies: list[tuple[WrittenAssertion, float]] = field(default_factory=list)
