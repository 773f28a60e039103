"""Conversations in promptfoo's configurations: prompts that repeat earlier cases, and recorded exchanges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holodeck_action.extensions.importers.promptfoo.built_case import BuiltCase
from holodeck_action.extensions.importers.promptfoo.judged import RELEVANCE
from holodeck_action.extensions.importers.promptfoo.prompts import HISTORY
from holodeck_action.extensions.importers.promptfoo.tests import Test
from holodeck_action.extensions.importers.source import UnfitError


def recorded_exchanges(test: Test) -> list[tuple[str, str]]:
    """Return the pairs of question and answer in a case's variable `_conversation`; empty without this variable.

    Raises:
        UnfitError: the variable does not contain pairs of texts, or an assertion does not grade the conversation.
    """
    written = test.variables.get(HISTORY)
    if written is None:
        return []
    said = [
        (each["input"], each["output"])
        for each in (written if isinstance(written, list) else ())
        if isinstance(each, dict) and isinstance(each.get("input"), str) and isinstance(each.get("output"), str)
    ]
    if not said or len(said) != len(written):
        raise UnfitError("_conversation must be a list of mappings with the texts input and output")
    if any(each.data.get("type") != RELEVANCE for each in test.assertions):
        raise UnfitError(f"only {RELEVANCE} grades _conversation; write a separate case for the other assertions")
    return said


def conversations_of(cases: Sequence[BuiltCase]) -> list[list[BuiltCase]]:
    """Group cases by conversation, in order; a case without a conversation is its own group."""
    found: dict[Any, list[BuiltCase]] = {}
    for at, case in enumerate(cases):
        found.setdefault(at if case.conversation is None else case.conversation, []).append(case)
    return [*found.values()]


def move_to_last_turn(conversation: Sequence[BuiltCase]) -> None:
    """Move the metrics that grade a whole conversation to its last turn."""
    *earlier, last = conversation
    for case in earlier:
        for metric in [each for each in case.metrics if each["type"] == "deepeval"]:
            case.metrics.remove(metric)
            if metric not in last.metrics:
                last.metrics.append(metric)


def conversation_key(test: Test, prompt: int) -> str:
    """Return the key of a case's conversation for the prompt with this number, by promptfoo's rule."""
    metadata = test.data.get("metadata")
    return json.dumps([prompt, str(metadata.get("conversationId") or "") if isinstance(metadata, dict) else ""])
