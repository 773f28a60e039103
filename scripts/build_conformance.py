"""Build docs/conformance/: what of each document of HoloDeck and its neighbours holds here, by the tests that prove it.

    python -m scripts.build_conformance

A row is one claim of a document, written as a mark on the test that fails when it stops holding:

    @pytest.mark.claims("holodeck-evaluation-api", "BLEUEvaluator", "scores are from 0 to 1", "the score is `bleu`")

The arguments are the document, its heading, and a row each. `differs=` says how and why we do otherwise, `refused=`
what to use instead. Marks are read without importing the tests. `tests/conformance/documents.toml` has the documents.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
PAGES = ROOT / "docs" / "conformance"
PARTS = {"works": "Works", "differs": "Differs", "refused": "Refused"}
_COLUMNS = {"differs": "here", "refused": "instead"}
_MARK = "pytest.mark.claims"


class Document(NamedTuple):
    """A document: its title, and its headings in their order."""

    title: str
    headings: tuple[str, ...]


class Claim(NamedTuple):
    """A row: a claim of a document, the test that proves it, and what we do otherwise."""

    document: str
    heading: str
    text: str
    part: str
    reason: str
    test: str


def documents() -> Mapping[str, Document]:
    """Return the documents by name."""
    found = tomllib.loads((TESTS / "conformance" / "documents.toml").read_text(encoding="utf-8"))
    return {name: Document(entry["title"], tuple(entry["headings"])) for name, entry in found.items()}


@cache
def claims(tests: Path = TESTS) -> tuple[Claim, ...]:
    """Return the rows of the marks on tests below a folder."""
    files = ((file, file.read_text(encoding="utf-8")) for file in sorted(tests.rglob("test_*.py")))
    return tuple(
        claim
        for file, text in files
        if f"@{_MARK}(" in text
        for claim in _claims_of(text, file.relative_to(tests).as_posix())
    )


def _claims_of(text: str, file: str) -> Iterator[Claim]:
    read = 0
    for test in ast.walk(ast.parse(text)):
        if not isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) or not test.name.startswith("test_"):
            continue
        for mark in test.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == _MARK:
                read += 1
                yield from _rows(mark, f"{file}::{test.name}")
    if read != text.count(f"{_MARK}("):
        raise SystemExit(
            f"{file}: claims are decorators of functions whose names begin with test_, and of nothing else"
        )


def _rows(mark: ast.Call, test: str) -> Iterator[Claim]:
    document, heading, *rows = (ast.literal_eval(argument) for argument in mark.args)
    said = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in mark.keywords}
    if len(said) > 1 or not said.keys() <= {"differs", "refused"} or not rows or not all([*rows, *said.values()]):
        raise SystemExit(f"{test}: a mark has a row at least, and no more than one of differs and refused, with a text")
    [(part, reason)] = said.items() or [("works", "")]
    for row in rows:
        yield Claim(document, heading, row, part, reason, test)


def build_page(name: str) -> str:
    """Return the page of a document."""
    document = documents()[name]
    found = [claim for claim in claims() if claim.document == name]
    counts = {part: sum(claim.part == part for claim in found) for part in PARTS}
    lines = [
        f"# {document.title}",
        "",
        f"What of the claims of the document `{name}` holds here: [works](#works) {counts['works']}, "
        f"[differs](#differs) {counts['differs']}, [refused](#refused) {counts['refused']}.",
        "The marks `claims` of the tests are the source of this page (`make conformance`). Each row names the test "
        "that fails when it stops holding, relative to `tests/`.",
    ]
    for part, title in PARTS.items():
        lines += ["", f"## {title}"]
        rows = {
            heading: [row for row in found if (row.heading, row.part) == (heading, part)]
            for heading in document.headings
        }
        if part == "works":
            for heading, its in rows.items():
                if its:
                    lines += [
                        "",
                        f"### {heading}",
                        "",
                        *_table(["claim", "test"], [[row.text, f"`{row.test}`"] for row in its]),
                    ]
        elif counts[part]:
            cells = [[row.heading, row.text, row.reason, f"`{row.test}`"] for its in rows.values() for row in its]
            lines += ["", *_table(["heading", "claim", _COLUMNS[part], "test"], cells)]
        else:
            lines += ["", "Nothing."]
    return "\n".join(lines) + "\n"


def _table(columns: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|---" * len(columns) + "|"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def main() -> None:
    """Write the pages."""
    PAGES.mkdir(exist_ok=True)
    for name in documents():
        (PAGES / f"{name}.md").write_text(build_page(name), encoding="utf-8")


if __name__ == "__main__":
    main()
