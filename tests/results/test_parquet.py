"""A record in Parquet holds what its results file holds, byte for byte, and is whole or refused."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.results.canonical import canonical_json, chosen_cases, record_digest
from holodeck_action.results.decision import decide
from holodeck_action.results.evaluation import Criteria, ErrorInfo, Evaluation
from holodeck_action.results.facts import LARGEST
from holodeck_action.results.parquet.writing import write_parquet
from holodeck_action.results.record import (
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
from holodeck_action.results.result_files import read_record, read_results, sealed_record, write_results
from holodeck_action.results.stored_cases import LazyCases, RecordError, case_lines
from holodeck_action.suite.errors import SourceMark
from tests.cli.project import Project
from tests.results.records import case, record

TABLES = ("cases", "trials", "turns", "evaluations")


def bytes_of(made: Record) -> bytes:
    """The results file of a record."""
    return b"".join(sealed_record(made, record_digest(made)))


def stored(folder: Path, made: Record) -> Record:
    """The record written as Parquet, and read back."""
    write_parquet(folder / "results.parquet", made, record_digest(made))
    return read_record(folder / "results.parquet")


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
SCORE = st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | RATING | st.just(-0.0) | TEXT
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
TRIAL = st.builds(TrialRecord, INTEGER, several(TURN), maybe(ERROR), maybe(TIMING))
CASE = st.builds(
    CaseRecord, TEXT, maybe(TEXT), TEXT, MARK, st.booleans(), INTEGER, INTEGER, INTEGER, INTEGER, st.booleans(),
    several(TEXT), st.floats(1e-9, 1e9), several(TRIAL), maybe(MARK),
)  # fmt: skip


# Each example takes processes, whatever it holds: few of many cases.
@settings(max_examples=14)
@example([])
@given(st.lists(CASE, min_size=4, max_size=8, unique_by=lambda case: case.id))
def test_nothing_is_lost_either_way(tmp_path_factory: pytest.TempPathFactory, cases: list[CaseRecord]) -> None:
    made = replace(record(), cases=tuple(cases), chosen=chosen_cases(case.id for case in cases))
    again = stored(tmp_path_factory.mktemp("stored"), made)
    assert bytes_of(again) == bytes_of(made)
    assert canonical_json(again) == canonical_json(made)


def many(count: int) -> Record:
    """A record of several parts, of cases that differ."""
    ran = case("PF", repeat=2)
    cases = [replace(ran if number % 500 == 7 else case(""), id=f"case-{number}") for number in range(count)]
    return replace(record(), cases=tuple(cases), chosen=chosen_cases(case.id for case in cases))


def test_cases_of_several_parts_are_read_in_any_order(tmp_path: Path) -> None:
    made = many(21_003)
    again = stored(tmp_path, made)
    files = sorted(path.name for path in (tmp_path / "results.parquet").iterdir())
    assert files == sorted(["manifest.json", *(f"{name}-{part:05}.parquet" for name in TABLES for part in range(3))])
    assert isinstance(again.cases, LazyCases)
    assert list(case_lines(again.cases)) == list(case_lines(made.cases))
    for place in (21_002, 0, 10_007, 9_999, 10_000, 5, 20_007, -1):
        assert again.cases[place] == made.cases[place]
    with pytest.raises(IndexError):
        again.cases[21_003]


def test_it_may_be_moved_away_while_it_is_read(tmp_path: Path) -> None:
    made = many(10_050)
    again = stored(tmp_path, made)
    (tmp_path / "results.parquet").rename(tmp_path / "elsewhere")
    assert again.cases[10_049] == made.cases[10_049]


def test_records_are_read_side_by_side(tmp_path: Path) -> None:
    made = [many(2_500), replace(many(2_500), notices=("other",))]
    for number in range(2):
        (tmp_path / str(number)).mkdir()
    one, other = (stored(tmp_path / str(number), each) for number, each in enumerate(made))
    for left, right, expected in zip(one.cases, other.cases, made[0].cases, strict=True):
        assert left == right == expected


def test_auto_takes_tables_above_a_size(tmp_path: Path) -> None:
    made = record(case("P"), case("F"))
    verdict = decide(made)
    size = len(bytes_of(made))
    for largest, expected in ((size, "results.json"), (size - 1, "results.parquet"), (size, "results.json")):
        written = write_results(tmp_path, made, verdict, record_format="auto", largest=largest)
        assert written == tmp_path / expected
        assert {path.name for path in tmp_path.iterdir()} == {expected, "verdict.json"}
        found = read_results(tmp_path)
        assert bytes_of(found.record) == bytes_of(made)
        assert json.loads((tmp_path / "verdict.json").read_bytes())["results_digest"] == found.digest


def test_a_number_too_large_for_its_column_is_refused(tmp_path: Path) -> None:
    made = record(replace(case("P"), planned_evaluations=2**63))
    with pytest.raises(OSError, match="cases: a value does not fit into its column"):
        stored(tmp_path, made)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of two parts."""
    folder = tmp_path_factory.mktemp("whole")
    stored(folder, many(10_010))
    return folder / "results.parquet"


def resealed(folder: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
    """Give a folder the digests that fit its files, as whoever forges one would."""
    file = folder / "manifest.json"
    document = json.loads(file.read_bytes())
    for number, part in enumerate(document["parts"]):
        for name in TABLES:
            content = (folder / f"{name}-{number:05}.parquet").read_bytes()
            part[name] |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    change(document)
    del document["digest"]
    text = json.dumps(document, indent=1).removesuffix("\n}").encode()
    file.write_bytes(text + f',\n "digest": "{hashlib.sha256(text).hexdigest()}"\n}}\n'.encode())


def rewritten(name: str, change: Callable[[pyarrow.Table], pyarrow.Table]) -> Callable[[Path], None]:
    """Another table in place of one, and the digests that fit it."""

    def rewrite(folder: Path) -> None:
        file = folder / name
        before = pyarrow.parquet.ParquetFile(file)
        groups = [before.read_row_group(at) for at in range(before.num_row_groups)]
        table = change(pyarrow.concat_tables(groups))
        with pyarrow.parquet.ParquetWriter(file, table.schema) as writer:
            start = 0
            for group in groups:
                writer.write_table(table.slice(start, group.num_rows))
                start += group.num_rows
        rows = name.partition("-")[0]
        resealed(folder, lambda document: document["parts"][0][rows].update(rows=table.num_rows))

    return rewrite


def column(name: str, values: Callable[[pyarrow.Table], Any], kind: Any = None) -> Callable[[Any], Any]:
    """The table with other values in a column."""

    def change(table: pyarrow.Table) -> pyarrow.Table:
        at = table.schema.get_field_index(name)
        return table.set_column(at, name, pyarrow.array(values(table), kind or table.schema.field(at).type))

    return change


def edited(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        content = (folder / name).read_bytes()
        assert change(content) != content
        (folder / name).write_bytes(change(content))

    return edit


def swapped(folder: Path) -> None:
    one, other = folder / "cases-00000.parquet", folder / "cases-00001.parquet"
    one.rename(folder / "kept")
    other.rename(one)
    (folder / "kept").rename(other)


def in_turn(*changes: Callable[[Path], object]) -> Callable[[Path], None]:
    """Several changes, one after the other."""

    def change(folder: Path) -> None:
        for each in changes:
            each(folder)

    return change


def without_last_part(folder: Path) -> None:
    resealed(folder, lambda document: document["parts"].pop())
    for each in folder.glob("*-00001.parquet"):
        each.unlink()


def linked(folder: Path) -> None:
    (folder / "turns-00000.parquet").rename(folder / "kept")
    (folder / "turns-00000.parquet").symlink_to("kept")


def piped(folder: Path) -> None:
    (folder / "turns-00000.parquet").unlink()
    os.mkfifo(folder / "turns-00000.parquet")


NOT_THAT = "is not that of the manifest: it was edited, exchanged or cut short; use the folder as the run wrote it"
BAD: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "", "holds no results.json; give the output folder"),
    "part missing": (lambda f: (f / "turns-00001.parquet").unlink(), "turns-00001.parquet", "No such file"),
    "part cut": (edited("evaluations-00000.parquet", lambda c: c[:-1]), "evaluations-00000.parquet", NOT_THAT),
    "part edited": (
        edited("evaluations-00000.parquet", lambda c: c[:9] + bytes([c[9] ^ 1]) + c[10:]),
        "evaluations-00000.parquet",
        "",
    ),
    "parts swapped": (swapped, "cases-00000.parquet", NOT_THAT),
    "a link": (linked, "turns-00000.parquet", "is a link, which is not followed"),
    "a pipe": (piped, "turns-00000.parquet", "is no regular file"),
    "a table more": (
        lambda f: (f / "turns-00002.parquet").write_bytes(b""),
        "turns-00002.parquet",
        "is of another record, as the manifest does not name it",
    ),
    "manifest edited": (
        edited("manifest.json", lambda c: c.replace(b'"min_pass_rate": 1.0', b'"min_pass_rate": 0.1')),
        "manifest.json",
        "is not whole: it was edited or cut short",
    ),
    "manifest cut": (edited("manifest.json", lambda c: c[:-2]), "manifest.json", "not valid JSON"),
    "manifest of a list": (edited("manifest.json", lambda _: b"[]"), "manifest.json", "it is no object"),
    "manifest too deep": (edited("manifest.json", lambda _: b"[" * 100_000), "manifest.json", "not valid JSON"),
    "another layout": (
        lambda f: resealed(f, lambda d: d.update(layout=2)),
        "manifest.json",
        "schema_version and layout are (2, 2), this version reads (2, 1)",
    ),
    "a part less": (
        without_last_part,
        "",
        "is not whole: it holds 10000 of the 10010 cases that were chosen",
    ),
    "parts in another order": (
        in_turn(swapped, lambda f: resealed(f, lambda d: d["parts"].reverse())),
        "",
        "",
    ),
    "wrong rows": (
        lambda f: resealed(f, lambda d: d["parts"][0]["turns"].update(rows=1)),
        "turns-00000.parquet",
        "is not whole: it has 40 of 1 rows",
    ),
    "negative rows": (
        lambda f: resealed(f, lambda d: d["parts"][0]["turns"].update(rows=-1)),
        "manifest.json",
        "0.turns.rows: expected int >= 0",
    ),
    "no Parquet": (
        in_turn(lambda f: (f / "turns-00000.parquet").write_bytes(b"PAR1 nothing PAR1"), resealed),
        "turns-00000.parquet",
        "is no Parquet file that can be read",
    ),
    "another type": (
        rewritten("turns-00000.parquet", column("evaluations", lambda t: ["1"] * t.num_rows, pyarrow.string())),
        "turns-00000.parquet",
        "the column evaluations is missing or not of type int64",
    ),
    "another id": (
        rewritten("cases-00000.parquet", column("case", lambda t: [f"x{n}" for n in range(t.num_rows)])),
        "",
        "its cases are not those that were chosen",
    ),
    "the same id": (
        rewritten("cases-00000.parquet", column("case", lambda t: ["x"] * t.num_rows)),
        "",
        "two of its cases have the same id",
    ),
}
READ: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "rows that belong to none": (
        rewritten("turns-00000.parquet", column("evaluations", lambda t: [2] * t.num_rows)),
        "turns-00000.parquet",
        "tells of ",
    ),
    "fewer than none": (
        rewritten(
            "turns-00000.parquet", column("evaluations", lambda t: [-1 if n == 1 else 1 for n in range(t.num_rows)])
        ),
        "turns-00000.parquet",
        "tells of ",
    ),
    "NaN": (
        rewritten("evaluations-00000.parquet", column("score", lambda t: [float("nan")] * t.num_rows)),
        "cases-00000.parquet",
        "not a results file",
    ),
    "no JSON": (
        rewritten("evaluations-00000.parquet", column("metadata", lambda t: ["{"] * t.num_rows)),
        "cases-00000.parquet",
        "not a results file",
    ),
    "two lines": (
        rewritten("evaluations-00000.parquet", column("metadata", lambda t: ["{\n}"] * t.num_rows)),
        "",
        "a value that should be JSON has several lines",
    ),
    "a status that there is not": (
        rewritten("evaluations-00000.parquet", column("status", lambda t: ["green"] * t.num_rows)),
        "cases-00000.parquet",
        "evaluations.0.status",
    ),
    "more than the manifest tells": (
        rewritten(
            "evaluations-00000.parquet",
            column("explanation", lambda t: [chr(65 + n % 2) * 2_000_000 for n in range(t.num_rows)]),
        ),
        "",
        "they hold more than the manifest tells",
    ),
}


@pytest.mark.parametrize("name", [*BAD, *READ])
def test_what_is_not_whole_is_refused_by_name(whole: Path, tmp_path: Path, name: str) -> None:
    project = Project(whole.parent).copy_to(tmp_path)
    folder = project.folder / "results.parquet"
    change, file, sentence = {**BAD, **READ}[name]
    change(folder)
    if name in BAD:
        with pytest.raises(RecordError):
            read_record(folder)
    finished = project.run("decide", "results.parquet")
    (line,) = finished.stderr.splitlines()
    assert (finished.code, finished.stdout) == (2, "")
    assert line.startswith(f"error: results.parquet{'/' * bool(file)}{file}"), line
    assert sentence in line


@pytest.mark.parametrize("at", range(0, 100, 9))
def test_a_manifest_that_is_cut_anywhere_is_refused(whole: Path, tmp_path: Path, at: int) -> None:
    folder = Project(whole.parent).copy_to(tmp_path).folder / "results.parquet"
    content = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(content[: len(content) * at // 100])
    with pytest.raises(RecordError):
        read_record(folder)


def test_line_ends_of_the_manifest_do_not_matter(whole: Path, tmp_path: Path) -> None:
    folder = Project(whole.parent).copy_to(tmp_path).folder / "results.parquet"
    content = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(content.replace(b"\n", b"\r\n"))
    assert read_results(folder).digest == read_results(whole).digest
