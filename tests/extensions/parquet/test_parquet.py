"""A record exported as Parquet tables holds all that its results file holds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.extensions.parquet.parquet_tables import Column, tables
from holodeck_action.record.canonical import chosen_cases
from holodeck_action.record.evaluation import Criteria, ErrorInfo, Evaluation
from holodeck_action.record.facts import LARGEST
from holodeck_action.record.record import (
    CaseRecord,
    ModelUsage,
    Record,
    RetrievedChunk,
    Timing,
    ToolAssertion,
    ToolInvocation,
    TrialRecord,
    TurnRecord,
    Usage,
)
from holodeck_action.record.serialization import to_json
from holodeck_action.suite.errors import SourceMark
from tests.commands.project import Finished, Project
from tests.record.records import case, record

TEXT = st.text(max_size=12) | st.sampled_from(["", "NaN", "\0", '\n"\\', "\u2028é\U0001f600", "null", "1.0"])
INTEGER = st.integers(-(2**63), 2**63 - 1)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
COUNT = st.integers(0, LARGEST)
AMOUNT = st.floats(0, LARGEST)
RATING = st.floats(-LARGEST, LARGEST)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
MARK = st.builds(SourceMark, TEXT, INTEGER, INTEGER)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def several(strategy: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


ERROR = st.builds(ErrorInfo, TEXT, TEXT, TEXT, OBJECT)
TIMING = st.builds(Timing, TEXT, *[maybe(AMOUNT)] * 3)
CRITERIA = st.builds(
    Criteria, TEXT, TEXT, maybe(NUMBER), st.booleans(), st.sampled_from(["maximize", "minimize", "neutral"]),
    st.booleans(), OBJECT, maybe(several(TEXT)), maybe(MARK), maybe(TEXT),
)  # fmt: skip
SCORE = st.none() | st.booleans() | st.integers(0, 1) | st.floats(0, 1) | st.just(-0.0) | TEXT
EVALUATION = st.builds(
    Evaluation, TEXT, TEXT, TEXT, maybe(TEXT), SCORE, maybe(TEXT), CRITERIA, OBJECT, TEXT, maybe(AMOUNT),
    st.sampled_from(["completed", "failed", "skipped", "pending"]), maybe(NUMBER), maybe(AMOUNT), maybe(ERROR),
    st.booleans(),
)  # fmt: skip
MODEL_USAGE = st.builds(ModelUsage, maybe(TEXT), *[maybe(COUNT)] * 4, maybe(AMOUNT), st.booleans())
USAGE = st.builds(
    Usage, maybe(COUNT), maybe(COUNT), maybe(AMOUNT), maybe(COUNT), maybe(COUNT), several(MODEL_USAGE),
    st.booleans(),
)  # fmt: skip
TURN = st.builds(
    TurnRecord, INTEGER, TEXT, MARK, maybe(TEXT), maybe(TEXT),
    maybe(several(st.builds(ToolInvocation, TEXT, OBJECT, JSON, maybe(COUNT), maybe(AMOUNT), maybe(TEXT)))),
    several(st.builds(ToolAssertion, TEXT, maybe(st.booleans()), INTEGER, maybe(TEXT))), maybe(several(TEXT)),
    maybe(several(st.builds(RetrievedChunk, TEXT, maybe(TEXT), maybe(RATING)))), maybe(several(TEXT)), maybe(USAGE),
    several(EVALUATION), maybe(ERROR), maybe(TEXT), maybe(TIMING), maybe(TEXT), maybe(TEXT), maybe(TEXT),
    maybe(several(OBJECT)), maybe(OBJECT),
)  # fmt: skip
TRIAL = st.builds(TrialRecord, INTEGER, several(TURN), maybe(ERROR), maybe(TIMING)).flatmap(
    lambda trial: several(EVALUATION).map(lambda found: replace(trial, evaluations=found if trial.turns else ()))
)
CASE = st.builds(
    CaseRecord, TEXT, maybe(TEXT), TEXT, MARK, st.booleans(), INTEGER, INTEGER, INTEGER, INTEGER, st.booleans(),
    several(TEXT), st.floats(1e-9, 1e9), several(TRIAL), maybe(MARK),
)  # fmt: skip


def export(project: Project, made: Record, *, into: str = "tables") -> Finished:
    project.out.mkdir(exist_ok=True)
    write_results(project.out, made, decide(made))
    return project.run("export", "out", "--format", "parquet", "-o", into)


def read_back(folder: Path) -> list[dict[str, Any]]:
    """The cases of exported tables as a results file has them, without what is null."""
    below: Below = {}
    for table in reversed(tables()):
        files = sorted(folder.glob(f"{table.name}-*.parquet"))
        rows = [row for file in files for row in pyarrow.parquet.ParquetFile(file).read().to_pylist()]
        made = [assembled(table.columns, row, below) for row in rows]
        below[table.name] = iter(made)
        if table.name == "evaluations":
            # The evaluations of turns are held by turns, those of whole conversations by trials.
            of_turns = [row["turn"] is not None for row in rows]
            below["evaluations"] = iter([one for one, of_turn in zip(made, of_turns, strict=True) if of_turn])
            whole = iter([one for one, of_turn in zip(made, of_turns, strict=True) if not of_turn])
        if table.name == "turns":
            below["evaluations"] = whole
    return made


Below = dict[str, Iterator[dict[str, Any]]]
"""The rows of tables that were read, by the field that holds them."""


def assembled(columns: tuple[Column, ...], row: dict[str, Any], below: Below) -> dict[str, Any]:
    found = {}
    for column in columns:
        value = row[column.name]
        if column.kind == "score":
            exact, category = row[column.name + "_json"], row[column.name + "_category"]
            value = (
                category if exact is None and category is not None else value if exact is None else json.loads(exact)
            )
        elif column.kind == "rows":
            value = [next(below[column.key]) for _ in range(value)]
            if not value and column.key == "evaluations" and "turns" in row:
                # A results file omits them where a trial has none.
                value = None
        elif value is not None and column.kind == "json":
            value = json.loads(value)
        elif value is not None and column.kind == "struct":
            value = assembled(column.fields, value, below)
        if value is not None:
            found[column.key] = value
    return found


def present(columns: tuple[Column, ...], value: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """A case of a results file without what is null."""
    found = {}
    for column in columns:
        held = value.get(column.key)
        if held is not None and column.kind == "rows":
            into = depth + 1 if column.key != "evaluations" else 3
            held = [present(tables()[into].columns, each, into) for each in held]
        elif held is not None and column.kind == "struct":
            held = present(column.fields, held)
        if held is not None:
            found[column.key] = held
    assert value.keys() <= {column.key for column in columns}
    return found


def cases_of(made: Record) -> list[dict[str, Any]]:
    return [present(tables()[0].columns, json.loads(to_json(case))) for case in made.cases]


@pytest.mark.full
@settings(max_examples=14)
@example([])
@given(st.lists(CASE, min_size=4, max_size=8, unique_by=lambda case: case.id))
def test_nothing_is_lost(tmp_path_factory: pytest.TempPathFactory, cases: list[CaseRecord]) -> None:
    project = Project(tmp_path_factory.mktemp("exported"))
    made = replace(record(), cases=tuple(cases), chosen=chosen_cases(case.id for case in cases))
    project.out.mkdir()
    write_results(project.out, made, decide(record()))
    assert project.run("export", "out", "--format", "parquet", "-o", "tables").code == 0
    assert read_back(project.folder / "tables") == cases_of(made)


def many(count: int) -> Record:
    """A record of several parts, of cases that differ."""
    ran = case("PF", repeat=2)
    cases = [replace(ran if number % 500 == 7 else case(""), id=f"case-{number}") for number in range(count)]
    return replace(record(), cases=tuple(cases), chosen=chosen_cases(case.id for case in cases))


@pytest.mark.full
def test_a_large_record_has_several_parts(tmp_path: Path) -> None:
    project, made = Project(tmp_path), many(21_003)
    assert export(project, made).code == 0
    names = ("cases", "evaluations", "trials", "turns")
    files = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert files == [f"{name}-{part:05}.parquet" for name in names for part in range(3)]
    assert read_back(tmp_path / "tables") == cases_of(made)
    # Other tables are replaced, without a trace of theirs.
    assert export(project, record(case("P"))).code == 0
    assert len([*(tmp_path / "tables").iterdir()]) == 4


def test_what_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path)
    finished = export(project, record(replace(case("P"), planned_evaluations=2**63)))
    assert finished.code == 2
    assert finished.errors[0].startswith("tables: cannot be written: cases: a value does not fit into its column")
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    finished = export(project, record(case("P")), into="out")
    assert (finished.code, finished.errors) == (2, ["out: cannot be written: another file or folder has this name"])
    finished = project.run("export", "out", "--format", "parquet")
    assert (finished.code, finished.errors) == (2, ["--format parquet writes a folder; name it with --output"])
    finished = project.run("export", "out", "--format", "json", "--metric", "bleu", "--history", "h")
    assert finished.errors == ["--format json does not take options of other formats; leave out --metric, --history"]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    finished = project.run("export", "out", "--format", "parquet", "-o", "tables")
    needed = (
        "Parquet needs the Python package 'pyarrow', which is not installed; run pip install 'holodeck-action[parquet]'"
    )
    assert (finished.code, finished.errors) == (2, [needed])


@pytest.mark.parametrize("named", ["old", "old/results.parquet"])
@pytest.mark.parametrize("command", ["decide", "report", "compare", "merge", "publish", "rejudge"])
def test_tables_of_an_earlier_version_are_refused_with_the_way_out(tmp_path: Path, command: str, named: str) -> None:
    project = Project(tmp_path)
    project.numbered(1)
    folder = tmp_path / "old" / "results.parquet"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    more = {"compare": ["old"], "publish": ["--pull-request", "1", "--repository", "octo/shop"]}
    finished = project.run(command, named, *more.get(command, []), GITHUB_TOKEN="none")
    assert finished.code == 2
    assert (
        "old/results.parquet: is a record in Parquet tables of an earlier version, which is not read any more; convert "
        "it with that version: holodeck-action export old/results.parquet --format json -o results.json"
    ) in " ".join(finished.errors)
