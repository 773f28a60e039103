"""`OwnTerms`: what a suite asks for that was run by the terms of another one, beside which it ran.

Cases, metrics and gates of such a record are those of the other suite. These are its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from msgspec import Struct

from holodeck_action.record.evaluation import Criteria
from holodeck_action.record.judge_card import Configuration
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import Baseline, Gates
from holodeck_action.suite.values import Case

_DIGITS = 16


class OwnPlan(Struct, frozen=True):
    """What would be in force if the suite ran by itself: its cases with their trials, gates and `baseline`."""

    cases: Sequence[Case]
    gates: Gates
    baseline: Baseline


class OwnTurn(Struct, frozen=True, omit_defaults=True):
    """What a turn asks for.

    Attributes:
        question: `text_digest` of what is asked.
        ground_truth: that of the expected answer; None for none.
        tools: the expected tool calls in readable form, as in `ToolAssertion`; empty for none.
        metrics: name of each metric, and the place of its criteria in `OwnTerms.criteria`.
    """

    question: str
    ground_truth: str | None = None
    tools: tuple[str, ...] = ()
    metrics: tuple[tuple[str, int], ...] = ()


class OwnCase(Struct, frozen=True):
    """What a case asks for; fields as in `CaseRecord`."""

    id: str
    name: str | None
    content_hash: str
    source: SourceMark
    repeat: int
    min_pass: int
    weight: float
    asserting: bool
    turns: tuple[OwnTurn, ...]


class OwnTerms(Struct, frozen=True):
    """The terms of a suite, as far as its record has those of another one.

    Attributes:
        gates: its gates.
        baseline: what a loss does.
        stop_when_decided: which trials count.
        configurations: what decides the scores of its judged metrics, by name.
        criteria: those of its metrics, each once.
        cases: its cases.
    """

    gates: Gates
    baseline: Baseline
    stop_when_decided: bool
    configurations: Mapping[str, Configuration]
    criteria: tuple[Criteria, ...]
    cases: tuple[OwnCase, ...]


def text_digest(text: str) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a text, by which two texts are told apart."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
