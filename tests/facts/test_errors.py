"""The table of errors: every kind has one row, and reports and races do what its row says."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import holodeck_action
from holodeck_action.decide.error_table import (
    ACTIONS,
    BUILT_IN,
    GROUPS,
    OWN_CLASS,
    OWN_MODEL,
    ROWS,
    USER,
    Actor,
    Door,
    ErrorRow,
    table_rows,
)
from holodeck_action.record.evaluation import OWN_CODE_ERROR, USER_ERROR
from tests.commands.project import Project
from tests.record.records import resealed

RAISED = {
    **dict.fromkeys(("AgentError", "UserError", "ModelCallError", "WireError", "PatternError", "UserCodeError"), 1),
    "EvaluationError": None,
    "ErrorInfo": 2,
    "CallError": 0,
    "_make_error": 1,
}
"""The position of the code among the arguments of what records of runs can contain; None if it is a keyword."""
TARGETS_PAGE = Path(__file__).parents[2] / "docs" / "targets.md"
OTHERS = {"no_rows", "not_excel", "not_parquet", "unreported_calls", "unreported_fact", "import"}
"""Codes of errors of files, and those that become other codes before a record is written."""


def codes_in(text: str) -> Iterator[str]:
    """Yield the codes of errors that a module names."""
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name in RAISED:
                place = RAISED[name]
                given = [each.value for each in call.keywords if each.arg == "code"]
                given += [call.args[place]] if place is not None and len(call.args) > place else []
                yield from (code for value in given for code in _constants(value))


def _constants(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from (*_constants(node.body), *_constants(node.orelse))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


@pytest.mark.full
def test_every_kind_of_error_has_a_row() -> None:
    # GitHub's errors are in no record, and parsing all modules takes long.
    made = re.compile(rf"\b(?:{'|'.join(RAISED)})\(")
    files = [file for file in Path(holodeck_action.__file__).parent.rglob("*.py") if "github" not in file.parts]
    texts = [text for file in files if made.search(text := file.read_text(encoding="utf-8"))]
    named = {code for text in texts for code in codes_in(text)}
    assert len(named) > 60
    # Some codes are chosen elsewhere; the page of targets names those of all targets.
    table = TARGETS_PAGE.read_text(encoding="utf-8").partition("| error code | meaning |")[2].partition("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {code for cell in first for code in re.findall(r"`([a-z_]+)`", cell)}
    assert "duplicate_transcript" in documented
    assert (named | documented) - OTHERS <= {code for row in ROWS for code in row.codes}


def test_a_kind_of_error_has_one_row_at_each_door() -> None:
    for group in GROUPS:
        found = [
            (code, status)
            for row in ROWS
            if {*row.doors} & {*group}
            for code in row.codes
            for status in row.statuses or (None,)
        ]
        assert len(found) == len({*found}), group
    assert {door for row in ROWS for door in row.doors} == {*get_args(Door)} == {each for row in GROUPS for each in row}
    assert ACTIONS.keys() == {*get_args(Actor)} == {row.actor for row in ROWS}


def error(row: ErrorRow, code: str, group: tuple[Door, ...]) -> dict[str, Any]:
    """Return an error of this kind as a record contains it."""
    context: dict[str, Any] = {"provider": "openai", "model": "m"} if group == OWN_MODEL else {}
    context |= {"status": row.statuses[0]} if row.statuses else {}
    kind = {USER: USER_ERROR, OWN_CLASS: OWN_CODE_ERROR}.get(group, "AgentError")
    return {"type": kind, "message": f"it is {row.about}", "code": code, "context": context}


def results(project: Project, row: ErrorRow, group: tuple[Door, ...], *, hard: bool = False) -> None:
    """Write results in which each case ends in an error of this row."""
    codes = [*(row.codes or ("never heard of",))] * 2
    metric = {"type": "length", "max_words": 5, "fail_on_error": hard}
    project.suite([{"name": f"case {at}", "input": "?"} for at in range(len(codes))], [metric])
    project.answers([{"case": f"case {at}", "response": "yes"} for at in range(len(codes))])
    project.policy(target="recorded:answers.jsonl")
    finished = project.run("run", "-o", "out", "--no-html")
    assert finished.code == 0, finished.stderr
    document = json.loads((project.out / "results.json").read_bytes())
    for case, code in zip(document["cases"], codes, strict=True):
        trial = case["trials"][0]
        turn = trial["turns"][0]
        evaluation = turn["evaluations"][0]
        if group in (OWN_CLASS, BUILT_IN):
            evaluation |= {"status": "failed", "score": None, "error": error(row, code, group)}
        else:
            evaluation |= {"status": "pending", "score": None}
            turn |= {"response": None, "error": error(row, code, group)}
    (project.out / "results.json").write_text(resealed(document))


def groups_of(row: ErrorRow) -> list[tuple[Door, ...]]:
    return [group for group in GROUPS if {*group} & {*row.doors}]


EXAMPLES = [
    pytest.param(row, group, id=f"{at}-{group[0]}") for at, row in enumerate(table_rows()) for group in groups_of(row)
]


@pytest.mark.parametrize(("row", "group"), EXAMPLES)
def test_reports_and_races_follow_the_table(project: Project, row: ErrorRow, group: tuple[Door, ...]) -> None:
    hard = row.meaning == "score 0"
    results(project, row, group, hard=hard)
    finished = project.run("decide", "out/results.json", "-o", "again")
    verdict = json.loads((project.folder / "again" / "verdict.json").read_bytes())
    assert {case["outcome"] for case in verdict["cases"]} == {"failed" if hard else "error"}
    assert finished.code == (1 if hard else 3), finished.stdout
    if hard:
        return
    said = project.run("report", "out/results.json").stdout
    assert f"it is {row.about}" in said
    assert ACTIONS[row.actor] in said
    assert not [action for actor, action in ACTIONS.items() if actor != row.actor and action in said]


@pytest.mark.parametrize(("row", "group"), EXAMPLES)
@pytest.mark.needs("race")
def test_a_race_counts_what_the_table_says(project: Project, row: ErrorRow, group: tuple[Door, ...]) -> None:
    from holodeck_action.extensions.race.evidence import UNKNOWN, Bounds
    from holodeck_action.extensions.race.objective import Objective
    from holodeck_action.record.result_files import read_record

    results(project, row, group, hard=row.meaning == "score 0")
    values = {Objective({}, frozenset(), False).value(case) for case in read_record(project.out).cases}
    assert values == {UNKNOWN if row.meaning == "unknown" else Bounds(0.0, 0.0)}
