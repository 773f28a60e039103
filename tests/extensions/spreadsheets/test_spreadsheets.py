"""Cases in sheets of Excel files."""

from __future__ import annotations

import datetime
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.extensions.spreadsheets.reader import MOST_ROWS
from holodeck_action.github.case_annotations import annotate
from holodeck_action.reports.report_building import build_report
from tests.commands.project import Project
from tests.suite.test_case_tables import complaint, loaded
from tests.targets.documents.made import excel, zip_bomb

HEAD = ["id", "input", "ground_truth"]
DAY = datetime.datetime(2026, 11, 26)


def _with_values(book: bytes, values: dict[str, str]) -> bytes:
    """A file with the values of formulas, as a spreadsheet program stores them: type and content by cell."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(book)) as before, zipfile.ZipFile(target, "w") as after:
        for name in before.namelist():
            text = before.read(name)
            if name == "xl/worksheets/sheet1.xml":
                for cell, stored in values.items():
                    found = re.search(rf'<c r="{cell}"[^>]*>(<f>[^<]*</f>)<v\s*(?:/>|></v>)</c>'.encode(), text)
                    assert found is not None, text
                    kind, _, value = stored.partition(" ")
                    made = b'<c r="%s" t="%s">%s<v>%s</v></c>' % (
                        cell.encode(),
                        kind.encode(),
                        found[1],
                        value.encode(),
                    )
                    text = text.replace(found[0], made)
            after.writestr(name, text)
    return target.getvalue()


def test_cells_are_read_as_they_are_shown(tmp_path: Path) -> None:
    values: list[tuple[Any, str]] = [
        (1, "1"),
        (1.0, "1"),
        (0.1 + 0.2, "0.3"),
        (-2.5, "-2.5"),
        (True, "TRUE"),
        (DAY, "2026-11-26"),
        (DAY.replace(hour=9, minute=30), "2026-11-26T09:30:00"),
        (datetime.time(9, 30), "09:30:00"),
        (datetime.timedelta(hours=26, minutes=5), "26:05:00"),
        (" two\nlines | é", " two\nlines | é"),
        ("1.10", "1.10"),
    ]
    rows = [HEAD, *([f"Q-{at}", at, value] for at, (value, _) in enumerate(values))]
    cases = loaded(tmp_path, "c.xlsx", {"c.xlsx": excel({"Cases": rows})}).cases
    assert [case.turns[0].ground_truth for case in cases] == [text for _, text in values]
    assert [case.turns[0].input for case in cases] == [str(at) for at in range(len(values))]
    assert str(cases[0].mark) == "c.xlsx, sheet Cases, row 2"
    assert str(cases[0].last) == "c.xlsx, sheet Cases, cell C2"


@pytest.mark.full
def test_a_sheet_has_the_cases_of_its_csv(tmp_path: Path) -> None:
    """The same cases by id and content, whatever is around them; blank rows and unnamed empty columns are nothing."""
    head: list[Any] = ["name", "input", "ground_truth", "tags", "weight", "expected_tools", None]
    rows: list[list[Any]] = [
        ["return", "How long?", "30 days", "slow, refunds", 2, None, None],
        ["order", "Where is A-17?", 4.5, None, 0.5, '["find_order", "refund"]', None],
        ["stock", "How many?", "7", None, None, "count", None],
    ]
    table = "\n".join(
        ",".join("" if c is None else json.dumps(str(c)).replace('\\"', '""') for c in r) for r in [head, *rows]
    )
    blank: list[list[Any]] = [[None] * 7, [None, "", None]]
    book = excel({"Notes": [["not", "cases"]], "My Cases": [*blank, head, *rows[:1], *blank, *rows[1:], *blank * 3]})
    first = excel({"x": [head, *rows]})
    expected = loaded(tmp_path / "csv", "c.csv", {"c.csv": table}).cases
    for name, file in (("c.xlsx#My Cases", book), ("*.XLSX#My Cases", book), ("c.xlsx", first), ("a#b.xlsx", first)):
        path = name.split("#My")[0].replace("*", "c")
        cases = loaded(tmp_path / name.replace("*", "s"), name, {path: file}).cases
        found = [(c.id, c.content_hash, c.tags, c.weight, c.turns[0].expected_tools) for c in cases]
        assert found == [(c.id, c.content_hash, c.tags, c.weight, c.turns[0].expected_tools) for c in expected]


@pytest.mark.full
def test_a_digest_covers_the_cells_and_not_the_file(tmp_path: Path) -> None:
    made = [excel({"a": [HEAD, ["1", "x", answer]], "b": [[answer]]}) for answer in ("y", "z")]
    again = openpyxl.load_workbook(io.BytesIO(made[0]))
    again["b"]["A1"] = "other"
    again["a"]["C2"].font = openpyxl.styles.Font(bold=True)
    saved = io.BytesIO()
    again.save(saved)
    files = {"one": made[0], "same": saved.getvalue(), "other": made[1]}
    found = {name: loaded(tmp_path / name, "c.xlsx", {"c.xlsx": file}).digest for name, file in files.items()}
    assert found["one"] == found["same"] != found["other"]


@pytest.mark.full
def test_formulas_have_the_values_that_the_file_stores(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        [*HEAD, "tags"],
        ["1", '="a"&"b"', "=1+1", '=""'],
        ["2", "x", "=1/0", "=A2"],
        ["3", "y", "=1=1", None],
    ]
    book = excel({"Cases": rows})
    stored = {"B2": "str ab", "C2": "n 2", "D2": "str ", "C4": "b 1"}
    wrong = {**stored, "C3": "e #DIV/0!"}
    assert complaint(tmp_path, "c.xlsx", {"c.xlsx": _with_values(book, wrong)}).splitlines() == [
        "c.xlsx, sheet Cases, cell C3: the cell has the error #DIV/0!: correct it",
        "c.xlsx, sheet Cases, cell D3: the formula has no stored value: open the file in a spreadsheet program and "
        "save it",
    ]
    left_out = "columns: {tags: null}"
    files: dict[str, str | bytes] = {"c.xlsx": _with_values(book, {**stored, "C3": "n 4"})}
    first, _, third = loaded(tmp_path, "c.xlsx", files, left_out).cases
    assert (first.turns[0].input, first.turns[0].ground_truth, first.tags) == ("ab", "2", ())
    assert third.turns[0].ground_truth == "TRUE"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("c.xlsx", b"no", "c.xlsx: the file is not a valid Excel file (.xlsx): File is not a zip file"),
        (
            "c.xlsx",
            bytes.fromhex("d0cf11e0a1b11ae1") + bytes(99),
            "c.xlsx: the file is encrypted or has the format of Office 97",
        ),
        ("c.xlsx", excel({"a": [HEAD]})[:-40], "c.xlsx: the file is not a valid Excel file"),
        ("c.xlsx#b", excel({"a": [HEAD]}), "c.xlsx#b: there is no sheet 'b' (it has: a)"),
        ("c.xlsx", excel({"a": [[None]]}), "c.xlsx: the sheet a is empty (required: a row with the names of the"),
        ("d.xlsx#a", excel({"a": [HEAD]}), "d.xlsx does not exist"),
        ("c.ods", b"no\0", "c.ods cannot be read: save the spreadsheet as .xlsx or .csv"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_sentence(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    found = complaint(tmp_path, name, {name.split("#")[0].replace("d.x", "e.x"): content})
    shown = sentence.replace("c.xlsx#b", "c.xlsx")
    assert found.startswith(f"agent.yaml:5:18: test_cases_file: {shown}"), found
    assert "\n" not in found


@pytest.mark.full
def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    found = complaint(tmp_path, "c.xlsx", {"c.xlsx": zip_bomb(300)})
    sentence = "c.xlsx: the file unpacks to 300 MiB, more than 256 MiB; give a smaller one"
    assert found.startswith(f"agent.yaml:5:18: test_cases_file: {sentence}"), found


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([HEAD, ["1", "x", "y", "z"]], "cell D1: the header of this column is empty: name each column"),
        ([["input", "inptu"], ["a", "b"]], 'cell B1: the column "inptu" is not a field of a case, did you mean "in'),
        ([["input", None, "input"], ["a"]], 'cell C1: the header names the column "input" twice (first in column 1)'),
        ([HEAD, [None] * 3, ["1", " ", "y"]], "cell B3: test_cases[0].input: must not be blank"),
        ([HEAD, ["1", "x", "y"], ["2", None, "y"]], "row 3: test_cases[1]: a case needs input, or turns or sim"),
        ([["input", "expected_tools"], ["x", '["a"']], "cell B2: expected_tools: Expecting ',' delimiter at column 5"),
        ([HEAD, ["1", "x", "y"], ["1", "z", "y"]], 'cell A3: test_cases[1].id: "1" is the id of another case, too ('),
        ([[*[f"n{at}" for at in range(27)], "inptu"]], 'cell AB1: the column "inptu" is not a field of a case'),
    ],
)
def test_a_problem_names_sheet_and_cell(tmp_path: Path, rows: list[list[Any]], sentence: str) -> None:
    ignored = "columns: {" + ", ".join(f"n{at}: null" for at in range(27)) + "}" if len(rows[0]) > 27 else ""
    found = complaint(tmp_path, "c.xlsx", {"c.xlsx": excel({"My Cases": rows})}, ignored)
    assert found.startswith(f"c.xlsx, sheet My Cases, {sentence}"), found


@pytest.mark.full
def test_ten_thousand_rows_are_the_most(tmp_path: Path) -> None:
    rows = [["input", "ground_truth"], *([f"q{at}", "y"] for at in range(MOST_ROWS))]
    assert len(loaded(tmp_path / "most", "c.xlsx", {"c.xlsx": excel({"a": rows})}).cases) == MOST_ROWS
    more = complaint(tmp_path / "more", "c.xlsx", {"c.xlsx": excel({"a": [*rows, ["q", "y"]]})})
    assert "c.xlsx: the sheet a has more than 10,000 rows: save it as .csv" in more


@pytest.mark.full
def test_a_failed_case_is_shown_with_its_row_and_annotated_at_the_file(project: Project) -> None:
    rows = [["input", "ground_truth", "evaluations"], ["one?", "1"], ["two?", "2"]]
    project.write("c.xlsx", excel({"Cases": rows}))
    project.suite([], test_cases=None, test_cases_file="c.xlsx")
    project.write("bot.py", "def answer(messages):\n    return '1'\n")
    project.policy(target="python:bot:answer")
    finished, record = project.evaluate()
    assert finished.code == 1
    assert [str(case.source) for case in record.cases] == ["c.xlsx, sheet Cases, row 2", "c.xlsx, sheet Cases, row 3"]
    for form in ("markdown", "console"):
        shown = project.run("report", "out/results.json", "--format", form)
        assert "c.xlsx, sheet Cases, row 3" in shown.stdout + shown.stderr
    record = replace(record, provenance=replace(record.provenance, folder="tests"))
    [made] = annotate([build_report(record, decide(record))])
    assert (made.path, made.line, made.column) == ("tests/c.xlsx", 1, None)
    assert made.message.startswith("sheet Cases, row 3\n")


def test_a_sheet_needs_the_extra_that_reads_it(project: Project) -> None:
    project.write("c.xlsx", excel({"Cases": [["input", "ground_truth"], ["a", "b"]]}))
    project.suite([], test_cases=None, test_cases_file="c.xlsx#Cases")
    found = project.run("validate", OPENAI_API_KEY="k")
    assert "agent.yaml: needs the extra: files (file c.xlsx)\n" in found.stdout, found.stderr


def test_a_problem_shows_no_bytes_of_the_file(project: Project) -> None:
    project.write("c.xlsx", excel({"Cases": [["input", "inptu"], ["a", "b"]]}))
    project.suite([], test_cases=None, test_cases_file="c.xlsx")
    refused = project.run("validate")
    assert refused.code == 2
    [line] = [line for line in refused.stderr.splitlines() if "inptu" in line]
    assert line.startswith("error: c.xlsx, sheet Cases, cell B1: ")
    assert "PK" not in refused.stderr


def _merged(rows: list[list[Any]], *ranges: str) -> bytes:
    book = openpyxl.load_workbook(io.BytesIO(excel({"Cases": rows})))
    for each in ranges:
        book["Cases"].merge_cells(each)
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


MERGED: list[list[Any]] = [
    HEAD,
    ["a", "1", "yes"],
    ["b", "2", None],
    ["c", "3", None],
    ["d", "4", "no"],
    [None, None, None],
]


def test_each_row_has_the_value_of_its_merged_cells(tmp_path: Path) -> None:
    cases = loaded(tmp_path, "c.xlsx", {"c.xlsx": _merged(MERGED, "C2:C4", "C5:C6")}).cases
    assert [case.turns[0].ground_truth for case in cases] == ["yes", "yes", "yes", "no"]


@pytest.mark.parametrize("name", ["B2:C2", "B2:C3", "C1:C2", "A1:B1"])
def test_cells_merged_across_columns_or_with_the_header_are_an_error(tmp_path: Path, name: str) -> None:
    text = complaint(tmp_path, "c.xlsx", {"c.xlsx": _merged(MERGED, name)})
    assert f"the cells {name} are merged: separate them" in text


@pytest.mark.full
def test_a_spreadsheet_with_odd_columns_runs_with_the_columns_that_the_errors_propose(project: Project) -> None:
    head = ["Nr.", "Customer's question", "Expected answer (short)", "Checked by"]
    rows = [[1, "When do you open?", "At nine", "Ada"], [2, "Where is A-17?", "In Leeds", "Bo"]]
    project.write("cases.xlsx", excel({"Sheet1": [head, *rows]}))
    agent = {
        "name": "shop",
        "model": {"provider": "openai", "name": "m"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases_file": "cases.xlsx",
    }
    project.write("agent.yaml", json.dumps(agent))
    project.answers([{"case": "1", "response": "At nine"}, {"case": "2", "response": "In York"}])
    refused = project.run("validate", "agent.yaml")
    assert refused.code == 2
    proposed = dict(re.findall(r"such as columns: \{(\"[^\"]+\"): (\w+)\}", refused.stderr))
    assert {json.loads(name): field for name, field in proposed.items()} == {
        "Nr.": "id",
        "Customer's question": "input",
        "Expected answer (short)": "ground_truth",
        "Checked by": "null",
    }
    columns = {json.loads(name): field for name, field in proposed.items() if field != "null"}
    project.policy(target="recorded:answers.jsonl", columns={**columns, "*": None})
    finished, record = project.evaluate()
    assert finished.code == 1, finished.stderr
    assert [(case.id, next(iter(case.turns)).input) for case in record.cases] == [(str(row[0]), row[1]) for row in rows]
    assert "sheet Sheet1" in finished.stdout
