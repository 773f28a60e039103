"""Cells of CSV: nothing in them is a formula, and labels read back are those that were written."""

from __future__ import annotations

import csv
import io
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.extensions.calibration.labels import read_labels
from holodeck_action.text.csv_cells import GUARDED, guard_cell, unguard_cell
from tests.tables import walk

VIEWER = Path(__file__).parents[2] / "viewer" / "src" / "labels.ts"
# As generators of attacks write them: OWASP's characters, other forms of them, and what is skipped in front.
SIGNS = "=+-@＝＋－＠﹦﹢﹣﹫−"
BEFORE = ("", " ", "\t", "\r", "\n", "\r\n", "\u00a0", "\u3000", "\u200b", "\u2060", "\ufeff", "\u202e", "\u00ad", "\0")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.text(
    st.sampled_from([*"'=+-@\t\r\n \"',;x", "＝", "\u200b", "\u3000"]), min_size=1, max_size=6
)


@walk("before", BEFORE)
@walk("sign", SIGNS)
def test_no_cell_is_a_formula(before: str, sign: str) -> None:
    for text in (f"{before}{sign}1+1", f"'{before}{sign}1+1", f"{before}{before}{sign}"):
        assert guard_cell(text) == f"'{text}"


@pytest.mark.parametrize("start", ["\t", "\r", "\n"])
def test_what_begins_a_cell_for_some_programs_is_guarded_alone(start: str) -> None:
    assert guard_cell(f"{start}harmless") == f"'{start}harmless"


@walk("text", ["", "bleu", "'tis", "a=b", "1.5", "ünï", "case-1", '"quoted"', "(x)", "日本"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert guard_cell(text) == unguard_cell(text) == text


@given(TEXTS)
def test_a_guarded_text_begins_with_no_formula_and_comes_back(text: str) -> None:
    cell = guard_cell(text)
    shown = cell.lstrip("".join(BEFORE))
    assert unicodedata.normalize("NFKC", shown)[:1] not in {*"=+-@"}
    assert unguard_cell(cell) == text


@given(rows=st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=5, unique=True))
def test_labels_read_back_are_those_that_were_written(rows: list[tuple[str, str, str]], tmp: Path) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["suite", "case", "metric", "label"])
    writer.writerows([*map(guard_cell, row), "pass"] for row in rows)
    file = tmp / "labels.csv"
    file.write_text(text.getvalue(), encoding="utf-8", newline="")
    read = read_labels(file, "labels.csv").rows
    assert [(row.suite, row.case, row.metric) for row in read] == rows


@pytest.fixture(scope="module")
def tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("labels")


def test_names_that_people_typed_lose_white_space_and_the_apostrophe_of_a_formula(tmp: Path) -> None:
    file = tmp / "typed.csv"
    file.write_text("case,metric,label\n case 1 ,'=1,pass\n'tis,  '-x ,fail\n", encoding="utf-8")
    assert [(row.case, row.metric) for row in read_labels(file, "typed.csv").rows] == [("case 1", "=1"), ("'tis", "-x")]


@pytest.mark.full
def test_the_viewer_guards_the_same_texts() -> None:
    """Its pattern is written in another language: every character is tried at the beginning and at the end."""
    source = VIEWER.read_text(encoding="utf-8")
    parts = {name: "".join(re.findall(r"String\.raw`(.*?)`", value)) for name, value in CONSTANTS.findall(source)}
    (written,) = re.findall(r'const GUARDED = new RegExp\(`(.*)`, "u"\);', source)
    for name, value in parts.items():
        written = written.replace(f"${{{name}}}", value)
    in_python = re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: f"\\U{found[1]:0>8}", written).removesuffix("$") + "\\Z"
    theirs = re.compile(in_python)
    for number in range(sys.maxunicode + 1):
        for text in (f"{chr(number)}x", f"'{chr(number)}x", f"x{chr(number)}"):
            assert bool(theirs.search(text)) == bool(GUARDED.search(text)), hex(number)


CONSTANTS = re.compile(r"const (FORMULA|BLANK) = ((?:\s*\+? ?String\.raw`[^`]*`)+);")
