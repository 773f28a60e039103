"""Inputs and outputs on their way out."""

from __future__ import annotations

import json
import time
from typing import Any

from holodeck_action.extensions.tracing.otel import TEXT_CHARS, VALUE_CHARS, Content
from holodeck_action.text.redaction import Redactor


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def test_secrets_go_before_anything_is_cut() -> None:
    content = Content(Redactor(["planted-secret"]), ())
    text = "x" * (TEXT_CHARS - 5) + "planted-secret"
    assert "plant" not in content.text(text)
    assert content.text({"planted-secret": 1}) == '{"***": 1}'


def test_a_long_text_says_how_long_it_was() -> None:
    shown = Content(Redactor(()), ()).text("x" * 20_000)
    assert shown == "x" * TEXT_CHARS + "… (20,000 characters)"


def test_of_a_long_conversation_the_end_is_kept() -> None:
    messages = [message(f"{number} " + "x" * 5000) for number in range(40)]
    shown = Content(Redactor(()), ()).text(messages)
    assert len(shown) <= VALUE_CHARS
    kept = json.loads(shown)
    assert kept == messages[-len(kept) :]
    assert 3 < len(kept) < 40


def test_patterns_see_keys_and_values() -> None:
    content = Content(Redactor(()), (r"\d+",))
    assert content.text({"a1": ["b2", {"c": 3, "d4": None}]}) == '{"a***": ["b***", {"c": 3, "d***": null}]}'
    assert content.slow_pattern is None


def test_all_patterns_of_a_run_lose_a_fraction_of_a_second_together() -> None:
    content = Content(Redactor(()), ("(a|aa)+$",))
    began = time.process_time()
    assert content.text([message("a" * 60 + "!") for _ in range(5)]) == "***"
    first = time.process_time() - began
    for _ in range(19):
        assert content.text([message("a" * 60 + "!") for _ in range(5)]) == "***"
    # Each of them would take as long as the first one.
    assert time.process_time() - began < 3 * first
    assert content.slow_pattern == "(a|aa)+$"
    assert content.text("harmless") == "***"
