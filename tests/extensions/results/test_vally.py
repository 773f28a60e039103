"""Results of Vally."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from holodeck_action.record.record import Usage
from holodeck_action.record.result_files import read_record
from tests.extensions.results.conftest import DATA, Shelf

Row = dict[str, Any]
ROWS: list[Row] = [
    json.loads(line) for line in (DATA / "vally" / "results.jsonl").read_text(encoding="utf-8").splitlines()
]


def _decide(shelf: Shelf, rows: list[Row], cases: str, *options: str) -> tuple[int, dict[str, str]]:
    shelf.project.write("results.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    code = int(shelf.gate("results.jsonl", "--cases", cases, *options).code)
    return code, shelf.outcomes()


def _regraded(row: Row, change: Callable[[Row], Row]) -> Row:
    return {**row, "gradeResult": change(row["gradeResult"])}


def test_trials_have_no_number_and_what_lacks_a_grade_does_not_pass(shelf: Shelf) -> None:
    first, second, summary = *ROWS[:2], ROWS[-1]
    name = "test-writer: writes tests"
    assert _decide(shelf, [first, second, summary], "1") == (0, {name: "passed"})
    turn = read_record(shelf.project.folder / "out").cases[0].trials[1].turns[0]
    assert (turn.input, turn.response, turn.usage) == ("Write tests.", "Done again.", Usage(12, 3))
    assert [(call.name, call.result) for call in turn.tool_invocations or ()] == [("write_file", "written")]
    # An id that is no text still connects a call with its result.
    rows = [json.loads(json.dumps(row).replace('"c1"', '["c1"]')) for row in (first, second, summary)]
    assert _decide(shelf, rows, "1")[0] == 0
    # The other stimulus ran twice, so that a trial of this one is missing.
    assert _decide(shelf, [first, *ROWS[2:4], summary], "2")[1][name] == "skipped"
    assert _decide(shelf, [first, second], "1")[0] == 4
    untyped = [{key: value for key, value in row.items() if key != "type"} for row in (first, second)]
    assert _decide(shelf, untyped, "1")[0] == 0
    for row, code in (
        ({**second, "gradeResult": None}, 3),
        ({**second, "status": "skipped", "trajectory": None, "gradeResult": None}, 3),
        (_regraded(second, lambda grade: {**grade, "passed": False}), 1),
        (_regraded(second, lambda grade: {**grade, "details": []}), 3),
        (_regraded(second, lambda grade: {**grade, "details": [], "passed": None, "score": 0.6}), 3),
    ):
        assert (_decide(shelf, [first, row, summary], "1")[0], row["gradeResult"]) == (code, row["gradeResult"])
    skipped = {**first, "status": "skipped", "stimulus": "other", "trajectory": None, "gradeResult": None}
    assert _decide(shelf, [first, second, skipped, {**skipped}, summary], "2")[0] == 3
    whole = [_regraded(row, lambda grade: {**grade, "details": None}) for row in (first, second)]
    assert _decide(shelf, [*whole, summary], "1")[0] == 0
    scored = [
        _regraded(row, lambda grade: {**grade, "passed": None, "details": [{"name": "s", "score": 0.6}]})
        for row in (first, second)
    ]
    assert [_decide(shelf, [*scored, summary], "1", "--pass-at", mark)[0] for mark in ("0.6", "0.7")] == [0, 1]


def test_models_are_cases_and_unknown_lines_are_refused_by_name(shelf: Shelf) -> None:
    other = {**ROWS[1], "model": "another"}
    assert _decide(shelf, [ROWS[0], other, ROWS[-1]], "2") == (
        0,
        {"test-writer: writes tests (gpt-5.5)": "passed", "test-writer: writes tests (another)": "passed"},
    )
    for row, sentence in (
        ({**ROWS[1], "type": "trial"}, "line 2: has the unknown type 'trial' (known: trial-result, run-summary)"),
        ({**ROWS[1], "status": "maybe"}, "line 2: has the unknown status 'maybe' (known: success, error, skipped)"),
        (ROWS[0], "line 2: has the trajectory 't1' of an earlier line, too"),
        ({**ROWS[1], "trajectory": 3}, "is not a valid file of its format"),
        ({**ROWS[1], "trajectory": "\ud800"}, "is not a valid file of its format"),
    ):
        shelf.project.write("results.jsonl", f"{json.dumps(ROWS[0])}\n{json.dumps(row)}\n")
        ended = shelf.gate("results.jsonl", "--cases", "1")
        assert (ended.code, sentence in ended.stderr) == (2, True), ended.stderr


def test_stimuli_are_found_in_their_file_and_answer_a_suite(shelf: Shelf) -> None:
    shelf.take("vally/results.jsonl")
    stimuli = "name: test-writer\nstimuli:\n- name: writes tests\n  graders: [{type: file-exists}]\n"
    shelf.project.write("evals/test-writer/eval.yaml", stimuli)
    shelf.gate("results.jsonl", "--cases", "4")
    case = read_record(shelf.project.folder / "out").cases[0]
    assert str(case.source) == "evals/test-writer/eval.yaml:3:3"
    shelf.project.suite([{"name": "a", "input": "Write tests.", "ground_truth": "Done."}])
    assert shelf.project.run("run", "--target", "results:results.jsonl", "-o", "out").code == 0
