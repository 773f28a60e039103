"""`OwnTerms`: the metrics, expectations and gates ("terms") in the files of a base suite. They are stored if the base
ran with the head's terms instead.

All other cases, metrics and gates in such a base's record are the head's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from msgspec import Struct

from holodeck_action.record.evaluation import Criteria
from holodeck_action.record.judge_card import Configuration
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.judging import Consistency
from holodeck_action.suite.model.policy import Baseline, Gates
from holodeck_action.suite.values import Case

_DIGITS = 16


class OwnPlan(Struct, frozen=True):
    """The plan of the suite without the head's terms: its cases with their trials, gates and `baseline`."""

    cases: Sequence[Case]
    gates: Gates
    baseline: Baseline


class OwnTurn(Struct, frozen=True, omit_defaults=True):
    """The terms of a turn.

    Attributes:
        question: `text_digest` of the input.
        ground_truth: `text_digest` of the expected answer; None if there is no expected answer.
        tools: the expected tool calls in readable form, as in `ToolAssertion`; empty if there are none.
        metrics: name of each metric, and the index of its criteria in `OwnTerms.criteria`.
    """

    question: str
    ground_truth: str | None = None
    tools: tuple[str, ...] = ()
    metrics: tuple[tuple[str, int], ...] = ()


class OwnCase(Struct, frozen=True):
    """The terms of a case; fields as in `CaseRecord`."""

    id: str
    name: str | None
    content_hash: str
    source: SourceMark
    repeat: int
    min_pass: int
    weight: float
    asserting: bool
    turns: tuple[OwnTurn, ...]


class OwnTerms(Struct, frozen=True, omit_defaults=True):
    """The cases, criteria and gates in a base suite's files, stored if the base ran with the head's terms instead.

    Attributes:
        gates: gates of the suite.
        baseline: settings of the comparison.
        stop_when_decided: whether trials end when their case is decided.
        configurations: judge configuration of each judged metric, by name.
        criteria: criteria of the metrics, each once.
        cases: terms of the cases.
        consistent: `require` if evaluations whose judge contradicts itself are errors.
    """

    gates: Gates
    baseline: Baseline
    stop_when_decided: bool
    configurations: Mapping[str, Configuration]
    criteria: tuple[Criteria, ...]
    cases: tuple[OwnCase, ...]
    consistent: Consistency = "report"


def text_digest(text: str) -> str:
    """Return the first 16 hexadecimal digits of a text's SHA-256, to compare texts."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
