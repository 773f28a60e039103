"""What lines of a history tell together, and lines that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.extensions.history.history_lines import (
    HistoryLine,
    MetricPoint,
    dump_line,
    parse_lines,
    sort_lines,
)
from holodeck_action.extensions.history.trends import history_of, sparkline
from tests.record.lines import line, point

MANY = tuple(
    line(
        day,
        rate,
        flaky=("a",) if day % 3 == 0 else (),
        failing=("b",) if day % 2 else (),
        outcome="failed" if day % 2 else "passed",
        complete=day != 7,
        partial=day == 5,
    )
    for day, rate in enumerate([0.9, 0.8, 0.95, 0.7, 0.9, 0.1, 0.85, 0.0, 0.9, 0.9, 0.6, 0.9])
)


@given(st.permutations([*MANY, *MANY[:3]]))
def test_neither_order_nor_repetition_of_lines_matters(lines: list[HistoryLine]) -> None:
    read = parse_lines(b"".join(map(dump_line, lines)), "history.jsonl")
    assert read.lines == MANY
    assert read.notices == ()
    assert history_of(sort_lines(lines)) == history_of(MANY)


def test_incomplete_and_filtered_runs_are_in_no_trend() -> None:
    found = history_of(MANY)
    assert found is not None
    assert found.pass_rate.values == (0.9, 0.8, 0.95, 0.7, 0.9, 0.85, 0.9, 0.9, 0.6, 0.9)
    assert found.metrics[0].values == found.pass_rate.values
    assert history_of([MANY[5], MANY[7]]) is None


def test_at_most_twenty_runs_are_shown() -> None:
    found = history_of([line(day, day / 100) for day in range(30)])
    assert found is not None
    assert [run.commit for run in found.runs] == [f"{day:040x}" for day in range(10, 30)]
    assert found.pass_rate.latest == 0.29


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([0.0, 0.5, 1.0], "▁▅█"),
        ([0.9, None, 1.0], "▁·█"),
        ([0.99, 1.0], "▄▅"),
        ([0.5, 0.5], "▅▅"),
        ([None], "·"),
        ([], ""),
    ],
)
def test_noise_fills_no_sparkline(values: list[float | None], bars: str) -> None:
    assert sparkline(values) == bars


def test_flaky_cases_are_counted_over_the_last_ten_runs() -> None:
    lines = [line(day, flaky=("a",) if day in (0, 1, 4, 6, 9) else ("b",) if day == 8 else ()) for day in range(12)]
    found = history_of(lines)
    assert found is not None
    assert [(case.id, case.flaky, case.runs) for case in found.flaky] == [("a", 3, 10), ("b", 1, 10)]
    assert found.advice == ("a was flaky in 3 of the last 10 runs: consider quarantine",)


def test_a_case_is_flaky_where_the_same_code_ended_both_ways() -> None:
    same: dict[str, Any] = {"commit": "c" * 40}
    found = history_of([line(0, failing=("a",), **same), line(1, **same), line(2, failing=("a",))])
    assert found is not None
    assert [(case.id, case.flaky, case.failed, case.runs) for case in found.flaky] == [("a", 2, 2, 3)]
    # Another suite, target or commit is other code.
    others: tuple[dict[str, Any], ...] = (
        {"suite_digest": "other"},
        {"target": "other"},
        {"measure": "b" * 64},
        {"commit": "d" * 40},
        {"commit": None},
    )
    for other in others:
        changed = history_of([line(0, failing=("a",), **same), line(1, **{**same, **other})])
        assert changed is not None
        assert changed.flaky == ()


@pytest.mark.parametrize(
    ("outcomes", "advised"),
    [
        (["passed"] * 10, True),
        (["failed", *["passed"] * 10], True),
        (["passed"] * 9, False),
        ([*["passed"] * 9, "failed"], False),
        ([*["passed"] * 5, None, *["passed"] * 5], False),
    ],
)
def test_a_quarantined_case_that_passes_ten_times_is_to_be_released(outcomes: list[Any], advised: bool) -> None:
    lines = [line(day, quarantined={} if found is None else {"slow": found}) for day, found in enumerate(outcomes)]
    history = history_of(lines)
    assert history is not None
    assert history.advice == (("slow passed its last 10 runs: release it from quarantine",) if advised else ())


def test_a_quarantined_case_that_is_flaky_is_not_advised_to_be_quarantined() -> None:
    history = history_of([line(day, flaky=("slow",), quarantined={"slow": "failed"}) for day in range(5)])
    assert history is not None
    assert history.flaky
    assert history.advice == ()


SAME: dict[str, Any] = {"commit": "c" * 40}


def drift(before: HistoryLine, after: HistoryLine) -> tuple[str, ...]:
    found = history_of([before, after])
    assert found is not None
    return found.drift


def test_a_number_that_moves_at_the_same_commit_is_a_drift() -> None:
    metrics = {"equality": MetricPoint(point(0.6))}
    assert drift(line(0, **SAME), line(1, metrics=metrics, **SAME)) == (
        "equality moved at commit ccccccc with the same suite: 0.900 [0.850, 0.950] on 2026-01-01, "
        "0.600 [0.550, 0.650] on 2026-01-02: a model changed, not the code",
    )
    [moved] = drift(line(0, metrics={}, **SAME), line(1, 0.7, metrics={}, **SAME))
    assert moved.startswith("the pass rate moved at commit ccccccc")


@pytest.mark.parametrize(
    "after",
    [
        line(1, 0.85, **SAME),
        line(1, 0.6, commit="d" * 40),
        line(1, 0.6, suite_digest="other", **SAME),
        line(1, 0.6, target="other", **SAME),
        line(1, 0.6, measure="b" * 64, **SAME),
        line(1, 0.6, complete=False, **SAME),
    ],
)
def test_noise_and_other_code_are_no_drift(after: HistoryLine) -> None:
    assert drift(line(0, **SAME), after) == ()


def test_few_cases_show_no_drift() -> None:
    few = line(0).pass_rate
    assert few is not None
    lines = [line(0, pass_rate=type(few)(0.9, None, None, 9), metrics={}, **SAME), line(1, 0.1, metrics={}, **SAME)]
    assert drift(*lines) == ()


def test_a_drift_names_another_version_of_the_program() -> None:
    moved = drift(line(0, **SAME), line(1, 0.5, tool_version="1.1.0", **SAME))
    assert all(sentence.endswith("holodeck-action 1.1.0 is another version than 1.0.0") for sentence in moved)
    assert len(moved) == 2


def test_a_base_that_was_run_again_is_compared_with_its_earlier_run() -> None:
    lines = [line(0, **SAME), line(1)]
    again = line(2, 0.4, **SAME)
    found = history_of(lines, again)
    assert found is not None
    assert len(found.drift) == 2
    assert len(found.runs) == 2


def broken(**changes: Any) -> bytes:
    return json.dumps({**json.loads(dump_line(line(3))), **changes}).encode()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not a run: expected object, got array"),
        (b"null", "is not a run: expected object, got null"),
        (b"\xff\xfe", "is not JSON"),
        (dump_line(line(3))[:-20], "is not JSON"),
        (b"x" * 1_100_000, "has 1,100,000 bytes, more than 1,048,576"),
        (broken(version=2), "is not a run: version: "),
        (broken(commit="../../etc"), "is not a run: commit: "),
        (broken(time="yesterday"), "is not a run: `time` must be a time with an offset, such as 2026-01-31T12:00:00Z"),
        (
            broken(time="2026-01-01T00:00:00"),
            "is not a run: `time` must be a time with an offset, such as 2026-01-31T12:00:00Z",
        ),
        (
            broken(time="0001-01-01T00:00:00+00:00"),
            "is not a run: `time` must be a time with an offset, such as 2026-01-31T12:00:00Z",
        ),
        (broken(pass_rate={"value": float("nan"), "low": None, "high": None, "cases": 1}), "is not JSON"),
        (broken(cost_usd=-1), "is not a run: cost_usd: "),
        (broken(tokens="12"), "is not a run: tokens: "),
        (broken(failing=["x"] * 201), "is not a run: failing: "),
        (broken(failing=["x" * 201]), "is not a run: failing.0: "),
        (broken(metrics={"a": {}}), "is not a run: metrics[...]: missing required field mean"),
    ],
)
def test_a_broken_line_is_skipped_with_a_notice(text: bytes, why: str) -> None:
    content = dump_line(line(2)) + text + b"\n" + b"\n" + dump_line(line(1))
    read = parse_lines(content, "history.jsonl")
    assert read.lines == (line(1), line(2))
    [notice] = read.notices
    assert notice.startswith("history.jsonl: 1 line is skipped: line 2 ")
    assert why in notice


def test_many_broken_lines_are_one_notice_without_hidden_characters() -> None:
    hostile = broken(metrics={"\u202e::error::x": {}})
    read = parse_lines(b"\n".join([hostile] * 3), "history.jsonl")
    [notice] = read.notices
    assert notice.startswith("history.jsonl: 3 lines are skipped; the first: line 1 is not a run: metrics[...]: ")
    assert notice.isprintable()
