"""Suites and answers for the scoring tests, in a few words."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from holodeck_action.metrics.registry import built_in
from holodeck_action.scoring.scoring import Answer
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.values import MetricSpec, Turn

MARK = SourceMark("agent.yaml", 7, 5)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def spec(metric: str | None = None, *, inherited: bool = False, k: int | None = None, **settings: Any) -> MetricSpec:
    """Return a metric entry; `metric` alone makes it a standard metric."""
    config = built_in().read("case", {**({"metric": metric} if metric else {}), **settings})
    return MetricSpec(
        config, label=settings.get("name") or metric or settings["type"], mark=MARK, inherited=inherited, k=k
    )


def turn(*metrics: MetricSpec, **fields: Any) -> Turn:
    """Return the only turn of a conversation."""
    return Turn(**{"index": 0, "input": "What is it?", "mark": MARK, "metrics": metrics, **fields})


def answer(asked: Turn, response: str = "", **fields: Any) -> Answer:
    """Return an answer to a turn of a case with one turn."""
    return Answer(**{"turn": asked, "case_name": "a case", "multi_turn": False, "response": response, **fields})


def ids() -> Callable[[], str]:
    """Return a source of ids that counts."""
    numbers = itertools.count()
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012x}"
