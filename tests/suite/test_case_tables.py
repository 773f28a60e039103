"""Cases in CSV, TSV, JSON, JSON Lines and Parquet files, and from functions."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from holodeck_action.metrics.registry import built_in
from holodeck_action.run.environments.case_rows import CaseRows
from holodeck_action.run.environments.setup import PackageSetup
from holodeck_action.suite.cases.case_files import MOST_CASES
from holodeck_action.suite.cases.tables import MOST_PROBLEMS
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import SuiteError
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.values import Suite
from tests.commands.project import Project
from tests.suite.folders import HEAD, write
from tests.tables import walk
from tests.workers.support import CODE

pytestmark = pytest.mark.needs("parquet")

CASES: list[dict[str, Any]] = [
    {"name": "return", "input": 'How long, "exactly", can I wait?', "ground_truth": "30 days.\nNot more."},
    {"name": "order", "input": "Where is A-17?", "expected_tools": ["find_order"], "ground_truth": "1.10"},
]
CSV = (
    "name,input,ground_truth,expected_tools\r\n"
    'return,"How long, ""exactly"", can I wait?","30 days.\nNot more.",\r\n'
    "\r\n"
    'order,Where is A-17?,1.10,"[""find_order""]"\r\n'
)
METRICS = "evaluations: {metrics: [{type: standard, metric: meteor, threshold: 0.5}]}\n"


def loaded(folder: Path, file: str, files: Mapping[str, str | bytes], policy: str = "", seconds: float = 60.0) -> Suite:
    """The suite whose cases are in a file, which may be made by `files`."""
    path = write(folder, {"agent.yaml": f"{HEAD}{METRICS}test_cases_file: {json.dumps(file)}\n"})
    for name, content in {**files, **({"holodeck-action.yaml": policy} if policy else {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    checkout = Checkout.of(folder, folder)
    rows = CaseRows(checkout, dict(os.environ), PackageSetup((), None, folder, CODE), seconds=seconds)
    return load_suite(path, environ={}, home=None, metrics=built_in(), checkout=checkout, rows=rows)


def complaint(folder: Path, file: str, files: Mapping[str, str | bytes], policy: str = "") -> str:
    with pytest.raises(SuiteError) as caught:
        loaded(folder, file, files, policy)
    return str(caught.value)


def parquet(folder: Path, rows: list[dict[str, Any]]) -> bytes:
    folder.mkdir(exist_ok=True, parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "made.parquet")
    return (folder / "made.parquet").read_bytes()


def questions(suite: Suite) -> list[tuple[str, str | None, str, str | None, list[str]]]:
    """All that a case asks."""
    return [
        (case.id, case.name, case.content_hash, turn.ground_truth, [t.name for t in turn.expected_tools.tools])
        if turn.expected_tools
        else (case.id, case.name, case.content_hash, turn.ground_truth, [])
        for case in suite.cases
        for turn in case.turns
    ]


def test_every_format_gives_the_same_cases(tmp_path: Path) -> None:
    source = (
        f"CASES = {CASES!r}\n\ndef give():\n    yield from CASES\n\n"
        "async def wait():\n    for case in CASES:\n        yield case\n"
    )
    expected = questions(loaded(tmp_path / "json", "cases.json", {"cases.json": json.dumps(CASES)}))
    assert len(expected) == 2
    files: dict[str, str | bytes] = {
        "cases.csv": CSV,
        "cases.CSV": b"\xef\xbb\xbf" + CSV.encode(),
        "cases.tsv": CSV.replace(",", "\t").replace("long\t", "long,").replace('"\t can', '", can'),
        "cases.jsonl": "".join(f"{json.dumps(case)}\n\n" for case in CASES),
        "cases.ndjson": "\r\n".join(json.dumps(case, ensure_ascii=False) for case in CASES),
        "cases.parquet": parquet(tmp_path / "made", [{"expected_tools": None, **case} for case in CASES]),
        "made.py": source,
    }
    for place in (*files, "python:made:give", "python:made:wait"):
        if place != "made.py":
            assert questions(loaded(tmp_path / place.replace(":", "-"), place, files)) == expected, place


def test_marks_are_those_of_cells_and_rows(tmp_path: Path) -> None:
    suite = loaded(tmp_path / "csv", "data/cases.csv", {"data/cases.csv": CSV})
    assert [str(case.mark) for case in suite.cases] == ["data/cases.csv:2:1", "data/cases.csv:5:1"]
    assert [str(case.last) for case in suite.cases] == ["data/cases.csv:2:45", "data/cases.csv:5:27"]
    lines = loaded(tmp_path / "jsonl", "c.jsonl", {"c.jsonl": "\n".join(map(json.dumps, CASES))})
    assert [str(case.mark) for case in lines.cases] == ["c.jsonl:1:1", "c.jsonl:2:1"]
    rows = loaded(tmp_path / "parquet", "c.parquet", {"c.parquet": parquet(tmp_path / "made", CASES)})
    assert [str(case.mark) for case in rows.cases] == ["c.parquet: row 1", "c.parquet: row 2"]


@pytest.mark.proves("Policy: columns")
def test_columns_fill_the_fields_that_the_policy_file_says(tmp_path: Path) -> None:
    columns = (
        "columns: {q: input, meta.answer: ground_truth, tools: expected_tools.tools, "
        "order: expected_tools.order, id: null}"
    )
    rows = [{"id": 7, "q": "Where?", "meta": {"answer": 4.5}, "tools": ["find"], "order": "strict"}]
    flat = 'id,q,meta.answer,tools,order\n7,Where?,4.5,"[""find""]",strict\n'
    files: dict[str, str | bytes] = {
        "c.json": json.dumps(rows),
        "c.jsonl": json.dumps(rows[0]),
        "c.parquet": parquet(tmp_path / "made", rows),
        "c.csv": flat,
    }
    for name in files:
        [case] = loaded(tmp_path / name.replace(".", "-"), name, files, columns).cases
        [turn] = case.turns
        assert turn.expected_tools is not None
        assert (case.name, turn.input, turn.ground_truth) == (None, "Where?", "4.5")
        assert (turn.expected_tools.order, turn.expected_tools.tools[0].name) == ("strict", "find")


@pytest.mark.proves("Policy: columns")
def test_all_columns_that_fill_no_field_can_be_left_out(tmp_path: Path) -> None:
    rows = [{"Question": "Where?", "Answer": "Leeds", "tags": "a, b", "Owner": "Ada", "Notes": {"seen": 1}}]
    files = {"c.json": json.dumps(rows), "c.csv": 'Question,Answer,tags,Owner\nWhere?,Leeds,"a, b",Ada\n'}
    for name in files:
        columns = 'columns: {Question: input, Answer: ground_truth, "*": null}'
        [case] = loaded(tmp_path / name, name, files, columns).cases
        assert (case.turns[0].input, case.turns[0].ground_truth, case.tags) == ("Where?", "Leeds", ("a", "b"))
    assert 'columns["*"]: must be null: it leaves out' in complaint(
        tmp_path / "refused", "c.csv", files, 'columns: {"*": input}'
    )


def test_columns_give_ids_tags_and_weights(tmp_path: Path) -> None:
    """A cell of names has one, or several with commas between; the policy file adds to the row by its id."""
    rows: list[dict[str, Any]] = [
        {
            "id": "Q-17",
            "input": "a",
            "ground_truth": "b",
            "tags": "slow, refunds",
            "weight": 2,
            "expected_tools": "find",
        },
        {"id": "Q-18", "input": "a", "ground_truth": "b", "weight": 0.5, "expected_tools": "find, refund"},
    ]
    flat = (
        'id,input,ground_truth,tags,weight,expected_tools,,\r\nQ-17,a,b,"slow, refunds",2,find,,\r\n'
        'Q-18,a,b,,0.5,"[""find"", ""refund""]",,\r\n,,,,,,,\r\n,,,,,,,\r\n,\r\n'
    )
    files: dict[str, str | bytes] = {
        "c.csv": flat,
        "c.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "c.parquet": parquet(tmp_path / "made", rows),
    }
    policy = "cases: {Q-17: {tags: [refunds, new], repeat: 3}, Q-18: {weight: 4}}"
    for name in files:
        first, second = loaded(tmp_path / name, name, files, policy).cases
        assert (first.id, first.tags, first.weight, first.repeat) == ("Q-17", ("slow", "refunds", "new"), 2.0, 3)
        assert (second.id, second.tags, second.weight, second.repeat) == ("Q-18", (), 4.0, 1)
        asked = [case.turns[0].expected_tools for case in (first, second)]
        assert [[tool.name for tool in each.tools] for each in asked if each] == [["find"], ["find", "refund"]]


def test_an_id_is_kept_and_others_make_way(tmp_path: Path) -> None:
    """Ids that follow from names do not take one that a row gives, whatever the order."""
    given, named = ["return,,a,b\n"], [",order,c,d\n", ",return,e,f\n"]
    for rows in ([*given, *named], [*named, *given]):
        table = "id,name,input,ground_truth\n" + "".join(rows)
        cases = loaded(tmp_path / rows[0][:5], "c.csv", {"c.csv": table}).cases
        ids = {case.turns[0].input: case.id for case in cases}
        assert (ids["a"], ids["c"]) == ("return", "order")
        assert ids["e"].startswith("return-")


def test_rows_of_parameters_have_their_own_ids(tmp_path: Path) -> None:
    table = "id,name,input,ground_truth\nQ-1,order,Where is ${{order}}?,x\n"
    policy = "cases: {order: {parameters: [{order: A-17}, {order: B 4}]}}"
    cases = loaded(tmp_path, "c.csv", {"c.csv": table}, policy).cases
    assert [(case.id, case.name) for case in cases] == [("Q-1-a-17", "order [A-17]"), ("Q-1-b-4", "order [B 4]")]


@walk(
    ("row", "sentence"),
    [
        ("a,x,y,,\na,z,y,,", 'c.csv:3:1: test_cases[1].id: "a" is the id of another case, too (c.csv:2:1): ids must'),
        (
            "a b,x,y,,",
            "c.csv:2:1: test_cases[0].id: must be at most 80 letters, digits and characters of . _ : / -, and",
        ),
        ("a,x,y,0,", "c.csv:2:7: test_cases[0].weight: 0 is out of range (allowed: 0.001 to 1000)"),
        ("a,x,y,heavy,", "c.csv:2:7: test_cases[0].weight: must be a number"),
        ('a,x,y,1,"{""a"": 1}"', "c.csv:2:9: test_cases[0].tags: must be a list"),
    ],
)
def test_wrong_ids_tags_and_weights_are_told(tmp_path: Path, row: str, sentence: str) -> None:
    found = complaint(tmp_path, "c.csv", {"c.csv": f"id,input,ground_truth,weight,tags\n{row}\n"})
    assert found.startswith(sentence), found


@walk(
    ("key", "hint"),
    [
        ("tags", "it goes to holodeck-action.yaml, `cases:`, under the name of the case"),
        ("weight", "it goes to holodeck-action.yaml, `cases:`, under the name of the case"),
        ("repeat", "it goes to holodeck-action.yaml, `cases:`, under the name of the case"),
        ("id", "a case has its id from its name; what is added to it goes to holodeck-action.yaml, `cases:`"),
    ],
)
def test_what_a_case_of_yaml_cannot_have_is_told_with_its_place(tmp_path: Path, key: str, hint: str) -> None:
    found = complaint(tmp_path, "c.yaml", {"c.yaml": f"- {{input: a, ground_truth: b, {key}: 1}}\n"})
    assert found.startswith(f"c.yaml:1:31: test_cases[0].{key}: unknown key: {hint} (allowed: ")


def test_several_files_are_one_suite_in_the_order_of_their_names(tmp_path: Path) -> None:
    files = {
        "cases/b/2.jsonl": '{"input": "two", "ground_truth": "2"}',
        "cases/a.csv": "input,ground_truth\none,1\n",
        "cases/c.yaml": "- {input: three, ground_truth: 3}\n",
        "cases/[x].csv": "input,ground_truth\nfour,4\n",
    }
    suite = loaded(tmp_path / "all", "cases/**/*.*", files)
    assert [case.turns[0].input for case in suite.cases] == ["four", "one", "two", "three"]
    assert [str(case.mark) for case in suite.cases][1:] == [
        "cases/a.csv:2:1",
        "cases/b/2.jsonl:1:1",
        "cases/c.yaml:1:3",
    ]
    [case] = loaded(tmp_path / "one", "cases/[x].csv", files).cases
    assert case.turns[0].input == "four"
    changed = loaded(tmp_path / "other", "cases/**/*.*", {**files, "cases/a.csv": "input,ground_truth\none,9\n"})
    assert changed.digest != suite.digest


@walk(
    ("name", "content", "sentence"),
    [
        (
            "c.csv",
            "input,ground_truth\na,b,c\n",
            "c.csv:2:5: the row has 3 cells, the header 2: put text that contains",
        ),
        (
            "c.csv",
            "input,ground_truth\nx,y\na\n",
            'c.csv:3:1: the row has 1 cell, the header 2: "ground_truth" is missing',
        ),
        (
            "c.csv",
            'input,ground_truth\na,"b\nc,d\n',
            "c.csv:2:3: the quote of this cell is never closed: write a quote",
        ),
        ("c.csv", 'input,ground_truth\na,"b"c\n', "c.csv:2:3: text follows the closing quote of this cell"),
        ("c.csv", b"input,ground_truth\nx,y\na,\xe9\n", "c.csv:3:3: is not UTF-8 text: save the file as UTF-8"),
        ("c.csv", "input\na\n".encode("utf-16"), "c.csv:1:1: is UTF-16 text: save the file as UTF-8"),
        (
            "c.csv",
            "input,ground_truth,input\na,b,c\n",
            'c.csv:1:20: the header names the column "input" twice (first in col',
        ),
        ("c.csv", "input,\na,b\n", "c.csv:1:7: the header of column 2 is empty: name each column"),
        ("c.csv", "", "c.csv:1:1: is empty (required: a header line with columns)"),
        (
            "c.csv",
            "input;ground_truth\na;b\n",
            "c.csv:1:1: has one column, whose name contains other separators: save it",
        ),
        (
            "c.csv",
            "inptu,ground_truth\na,b\n",
            'c.csv:1:1: the column "inptu" is not a field of a case, did you mean "input"?',
        ),
        ("c.csv", "input\na\0b\n", "c.csv:2:2: holds a NUL character"),
        (
            "c.csv",
            'input,expected_tools\na,"[""x"""\n',
            "c.csv:2:3: expected_tools: Expecting ',' delimiter at column 5 of",
        ),
        ("c.csv", "input,ground_truth\n ,b\n", "c.csv:2:1: test_cases[0].input: must not be blank"),
        (
            "c.jsonl",
            '{"input": "a"}\n[1]\n',
            "c.jsonl:2:1: the line is a list, not an object (required: one object on each",
        ),
        (
            "c.jsonl",
            '{"input": "a"}\n\n{"input": }\n',
            "c.jsonl:3:1: the line is not valid JSON: Expecting value at column 11",
        ),
        ("c.jsonl", '{"input": "a", "input": "b"}', 'c.jsonl:1:1: the key "input" occurs twice in one object'),
        ("c.jsonl", b'{"input": "\xe9"}', "c.jsonl:1:12: is not UTF-8 text"),
        (
            "c.jsonl",
            b'{"input": "a"}\n{"input": "\xe9"}',
            "c.jsonl:2:1: the line holds bytes that are not UTF-8, or half of",
        ),
        ("c.jsonl", '{"input": NaN}', "c.jsonl:1:1: the line is not valid JSON: NaN is not a JSON value"),
        (
            "c.jsonl",
            '{"input": "a", "Expected answer (short)": "b"}',
            'c.jsonl:1:1: the column "Expected answer (short)" is not a field of a case: map it in the policy file, '
            'such as columns: {"Expected answer (short)": ground_truth}, or null to leave it out; "*": null leaves out '
            "all such columns",
        ),
        ("c.csv", "The question\na\n", 'such as columns: {"The question": input}, or null'),
        ("c.csv", "input,Question\na,b\n", 'such as columns: {"Question": null}, which leaves it out; "*": null'),
        (
            "c.csv",
            "input,Colour\na,b\n",
            'c.csv:1:7: the column "Colour" is not a field of a case (allowed: input, ground_truth, ground_truths, '
            "expected_tools, files, retrieval_context, evaluations, expect, name, turns, simulate, id, tags, weight): "
            'map it in the policy file, such as columns: {"Colour": null}, which leaves it out; "*": null',
        ),
        ("c.json", '[{"question": "a"}]', 'c.json:1:3: test_cases[0].question: unknown key, did you mean "input"?'),
        ("c.parquet", "no", "agent.yaml:5:18: test_cases_file: c.parquet: is not a readable Parquet file: "),
        ("d.parquet", "no", "agent.yaml:5:18: test_cases_file: d.parquet does not exist"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(
    tmp_path: Path, name: str, content: str | bytes, sentence: str
) -> None:
    found = complaint(tmp_path, name, {name.replace("d.p", "other.p"): content})
    assert sentence in found, found
    assert found.startswith(sentence) or sentence.startswith("such as")
    assert "\n" not in found


@pytest.mark.parametrize(
    ("file", "subject"), [("c.foo", "the file format .foo"), ("c", "a binary file without a suffix")]
)
def test_an_unsupported_format_is_refused_with_the_formats_and_the_extensions(
    tmp_path: Path, file: str, subject: str
) -> None:
    formats, extensions = complaint(tmp_path, file, {file: b"a\0b"}).split("); installed extension packages: ")
    begin = f"agent.yaml:5:18: test_cases_file: {file}: {subject} is not supported (allowed: "
    assert formats.startswith(begin + ".csv, .tsv, .jsonl, .ndjson, .json, .yaml, .yml, "), formats
    assert {".parquet", ".xlsx"} <= set(formats.removeprefix(begin).split(", "))
    assert {"parquet", "spreadsheets"} <= set(extensions.split(", "))


def test_what_is_wrong_with_a_row_is_told_with_row_and_column(tmp_path: Path) -> None:
    columns = "columns: {q: input}"
    rows: list[dict[str, Any]] = [{"q": "a", "ground_truth": "b"}, {"q": " ", "ground_truth": "b"}]
    place = 'test_cases[1].input: must not be blank (column "q")'
    table = {"c.parquet": parquet(tmp_path / "made", rows)}
    assert complaint(tmp_path / "p", "c.parquet", table, columns) == f"c.parquet: row 2: {place}"
    text = {"c.csv": "ground_truth,q\nb,a\nb, \n"}
    assert complaint(tmp_path / "c", "c.csv", text, columns) == f"c.csv:3:3: {place}"


@walk(
    ("columns", "file", "sentence"),
    [
        (
            "{qq: input}",
            "c.csv",
            'holodeck-action.yaml:1:11: columns.qq: "qq" is not a column of the cases, did you mean "q"?',
        ),
        ("{q: question}", "c.csv", "holodeck-action.yaml:1:14: columns.q: "),
        (
            "{q: input, a: input}",
            "c.csv",
            'c.csv:1:3: the columns "q" and "a" both fill input: leave one out with null',
        ),
        ("{q: input}", "c.yaml", "holodeck-action.yaml:1:1: columns: has no effect: the cases are not in a table"),
    ],
)
def test_a_mapping_without_effect_is_refused(tmp_path: Path, columns: str, file: str, sentence: str) -> None:
    files = {"c.csv": "q,a\nx,y\n", "c.yaml": "- {input: a, ground_truth: b}\n"}
    assert sentence in complaint(tmp_path, file, files, f"columns: {columns}")


@pytest.mark.full
def test_a_suite_has_at_most_a_million_cases_in_all_its_tables(tmp_path: Path) -> None:
    half = "input\n" + "q\n" * (MOST_CASES // 2)
    told = complaint(tmp_path, "*.csv", {"a.csv": half, "b.csv": f"{half}one more\n"})
    assert told == "b.csv:500002:1: is case 1,000,001, but a suite has at most 1,000,000: make several suites"


@walk(("file", "row"), [("c.csv", "a,b\n"), ("c.jsonl", "[]\n")])
def test_a_table_is_not_read_further_after_a_thousand_problems(tmp_path: Path, file: str, row: str) -> None:
    told = complaint(tmp_path, file, {file: "input\n" + row * 3_000}).splitlines()
    assert len(told) == MOST_PROBLEMS + 2
    assert any("the rest is not read after 1,000 problems" in line for line in told)


@pytest.mark.full
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("raise KeyError('x')", "made:give: it raised KeyError: 'x' (made.py:2)"),
        ("return 3", "made:give: it must yield or return mappings, one for each case, not int"),
        ("yield {'input': 'a'}\n    yield 4", "made:give: row 2 is of type int (required: a mapping)"),
        ("yield {'input': {1, 2}}", "made:give: row 1.input is of type set, which JSON cannot hold"),
        ("yield {'input': 'a', 'line': 1}", 'python:made:give: row 1: the column "line" is not a field of a case'),
        ("while True: pass", "made:give: it took longer than 1 s; its process was ended"),
        ("import os; os._exit(3)", "made:give: its process exited with code 3"),
    ],
)
def test_a_function_that_gives_no_cases_is_told(tmp_path: Path, body: str, sentence: str) -> None:
    with pytest.raises(SuiteError) as caught:
        loaded(tmp_path, "python:made:give", {"made.py": f"def give():\n    {body}\n"}, seconds=1.0)
    found = str(caught.value)
    assert sentence in found, found
    assert "\n" not in found


@walk(
    ("file", "sentence"),
    [
        ("../*.csv", "agent.yaml:5:18: test_cases_file: ../*.csv is outside the checkout"),
        ("a/../../*.csv", "agent.yaml:5:18: test_cases_file: a/../../*.csv is outside the checkout"),
        ("*/../../x.csv", "is outside the checkout"),
        ("none*.csv", "agent.yaml:5:18: test_cases_file: none*.csv matches no file (allowed: a path or a pattern"),
        ("python:made", "agent.yaml:5:18: test_cases_file: must be python:MODULE:FUNCTION, such as python:"),
        ("python:none:give", "agent.yaml:5:18: test_cases_file: none:give: "),
    ],
)
def test_places_that_are_none(tmp_path: Path, file: str, sentence: str) -> None:
    write(tmp_path, {"x.csv": "input\nsecret\n"})
    found = complaint(tmp_path / "suite", file, {"a/x.txt": ""})
    assert sentence in found
    assert "secret" not in found


def test_a_link_out_of_the_checkout_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"x.parquet": "secret", "x.csv": "input\nsecret\n"})
    (tmp_path / "suite/cases").mkdir(parents=True)
    for name in ("x.parquet", "x.csv"):
        (tmp_path / "suite/cases" / name).symlink_to(tmp_path / name)
        found = complaint(tmp_path / "suite", "cases/*" + name[1:], {})
        assert f"cases/{name} is outside the checkout" in found


def test_a_function_has_the_packages_of_the_projects_environment(tmp_path: Path) -> None:
    (tmp_path / "python").write_text(f'#!/bin/sh\nOF_PROJECT=1 exec "{sys.executable}" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    made = "import os\ndef give():\n    yield {'input': os.environ['OF_PROJECT'], 'ground_truth': 'a'}\n"
    [case] = loaded(tmp_path, "python:made:give", {"made.py": made}, "environment: {interpreter: python}").cases
    assert case.turns[0].input == "1"


def test_variables_are_not_put_into_data(tmp_path: Path) -> None:
    [case] = loaded(tmp_path, "c.csv", {"c.csv": "input,ground_truth\nWhat is ${HOME}?,a\n"}).cases
    assert case.turns[0].input == "What is ${HOME}?"


def test_a_run_shows_rows_and_names_no_line_of_a_file_that_has_none(project: Project) -> None:
    rows = [{"input": "one?", "ground_truth": "1"}, {"input": "two?", "ground_truth": "2"}]
    project.write("c.parquet", parquet(project.folder / "made", rows))
    project.suite([], test_cases=None, test_cases_file="c.parquet")
    project.write("bot.py", "def answer(messages):\n    return '1'\n")
    project.policy(target="python:bot:answer")
    finished, record = project.evaluate()
    assert finished.code == 1
    assert [str(case.source) for case in record.cases] == ["c.parquet: row 1", "c.parquet: row 2"]
    assert "c.parquet: row 2" in project.run("report", "out/results.json", "--format", "markdown").stdout
    refused = project.run("validate", "none")
    assert refused.code == 2
