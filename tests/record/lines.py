"""Lines of a history, in few words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from holodeck_action.extensions.history.history_lines import HistoryLine, HistoryPoint, MetricPoint

START = datetime(2026, 1, 1, tzinfo=UTC)


def point(value: float, half: float = 0.05, cases: int = 50) -> HistoryPoint:
    """A value with an interval of so much on both sides."""
    return HistoryPoint(value, max(0.0, value - half), min(1.0, value + half), cases)


def line(day: int, rate: float = 0.9, **changes: Any) -> HistoryLine:
    """A run of agent.yaml, of so many days after the first one, at a commit of its own."""
    made = HistoryLine(
        version=1,
        suite="agent.yaml",
        commit=f"{day:040x}",
        time=(START + timedelta(days=day)).isoformat(),
        outcome="passed",
        complete=True,
        partial=False,
        target="recorded:answers.jsonl",
        pass_rate=point(rate),
        metrics={"equality": MetricPoint(point(rate))},
        flaky=(),
        failing=(),
        quarantined={},
        cost_usd=0.5,
        tokens=100,
        p95_latency_ms=1500.0,
        suite_digest="suite",
        measure="a" * 64,
        record_digest=f"{day:064x}",
        tool_version="1.0.0",
    )
    return replace(made, **changes)
