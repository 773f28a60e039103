"""CSV, JSON and the console: the same facts, inert."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given, settings

from holodeck_action.record.record import Provenance, Record, SuiteIdentity
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.formats import COLUMNS, FORMATS, csv_report, json_report, render
from tests.action.runner import read_log
from tests.record.records import case, case_of, evaluation, record, turn
from tests.reports.hostile import hostile_case, storable_texts
from tests.reports.shown import report_of, varied


def hostile(text: str) -> Record:
    return record(
        hostile_case(text),
        case("P", name=text),
        case("E", name=text),
        suite=SuiteIdentity(text, text, text),
        provenance=Provenance(text, text, text),
        notices=(text,),
    )


@given(storable_texts)
@settings(max_examples=30)
@pytest.mark.parametrize("name", FORMATS)
def test_no_format_says_anything_to_a_runner(name: str, text: str) -> None:
    assert read_log(b"".join(render(report_of(hostile(text)), name))).commands == ()


def rows_of(made: Record) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(csv_report(report_of(made)))), strict=True))


def test_csv_has_a_row_per_case_trial_turn_and_metric() -> None:
    rows = rows_of(varied())
    assert tuple(rows[0]) == COLUMNS
    found = [(row["title"], row["trial"], row["turn"], row["metric"], row["outcome"], row["score"]) for row in rows]
    assert found == [
        ("passes", "0", "0", "bleu", "passed", "0.9"),
        ("fails", "0", "0", "bleu", "failed", "0.1"),
        ("crashes", "0", "0", "bleu", "error", ""),
        ("was not run", "", "", "", "skipped", ""),
        ("is quarantined", "0", "0", "bleu", "failed", "0.1"),
        ("only informs", "0", "0", "bleu", "informational", "0.9"),
        ("flaky", "0", "0", "bleu", "failed", "0.1"),
        ("flaky", "1", "0", "bleu", "passed", "0.9"),
        ("flaky", "2", "0", "bleu", "passed", "0.9"),
        ("two turns", "0", "0", "toxicity", "passed", "0.2"),
        ("two turns", "0", "0", "tone", "passed", "good"),
        ("two turns", "0", "0", "rouge", "skipped", ""),
        ("two turns", "0", "1", "bleu", "failed", "0.1"),
    ]
    assert rows[0]["source"] == "agent.yaml:3:5"
    assert rows[9]["polarity"] == "minimize"


def test_csv_computes_nothing_in_a_spreadsheet() -> None:
    for text in ("=1+1", "+1", "-1", "@SUM(A1)", "＝1", "\t=1+1", " =1", "\u200b=1"):
        made = record(case_of(turn(evaluation(0.1, evaluator_name=text, explanation=text)), name=text))
        for row in rows_of(made):
            assert row["title"][0] == "'"
            assert row["metric"][0] == "'"
    (row,) = rows_of(record(case_of(turn(evaluation(-1.5, None)), name="negative numbers stay numbers")))
    assert row["score"] == "-1.5"


@given(storable_texts)
@settings(max_examples=30)
def test_csv_rows_are_never_torn(text: str) -> None:
    rows = rows_of(hostile(text))
    assert [row["metric"] == "expected_tools" for row in rows] == [True, False, False, False]
    assert all(None not in row and None not in row.values() for row in rows)
    assert "".join(csv_report(report_of(hostile(text)))).count("\n") == 5


def test_tool_assertions_are_a_row() -> None:
    made = record(hostile_case("x"))
    row = rows_of(made)[0]
    assert (row["metric"], row["outcome"], row["score"]) == ("expected_tools", "failed", "0.0")


@given(storable_texts)
@settings(max_examples=30)
def test_json_holds_every_text_as_it_is(text: str) -> None:
    report = report_of(hostile(text))
    shown = "".join(json_report(report))
    assert "##[" not in shown
    assert json.loads(shown) == json.loads(to_json(report))
    assert json.loads(shown)["attention"][0]["turns"][0]["response"] == text
