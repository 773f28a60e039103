"""Build docs/conformance/: what of each document of HoloDeck and its neighbours holds here, row by row.

    python -m scripts.build_conformance

`tests/conformance/tables` has a table for each document, and in it the rows of each heading: a claim, a Python
expression, and what it gives, an error if it is refused. Two further entries say how we differ and why, or what to use
instead of what is refused:

    ["scores are from 0 to 1", "score(NumericEvaluator(), '1', '2')", "0.0"]
    ["versions begin with `v`", "version.startswith('v')", "False", "differs", "The letter is left out."]

`tests/conformance/test_claims.py` evaluates each row. The word `test` instead of an expression refers to another test.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "tests" / "conformance" / "tables"
SAMPLES = TABLES.parent / "samples"
PAGES = ROOT / "docs" / "conformance"
PARTS = {"works": "Works", "differs": "Differs", "refused": "Refused"}
_SAMPLE = re.compile(
    r"^## ([^\n]+)\n\n```(python|yaml)\n(.*?)\n```\n(?:\n```text\n(.*?)\n```\n)?", re.MULTILINE | re.DOTALL
)
_COLUMNS = {"works": (), "differs": ("here",), "refused": ("instead",)}


class Claim(NamedTuple):
    """A row: a claim of a document, an expression, what it gives, and what we do otherwise."""

    document: str
    heading: str
    text: str
    expression: str
    expected: str
    part: str = "works"
    reason: str = ""

    @property
    def test(self) -> str:
        """The test that proves the row, if it has no expression."""
        return self.expected if self.expression == "test" else ""


class Sample(NamedTuple):
    """A sample of a document: its heading, its language, its text, and what happens when it is run."""

    document: str
    heading: str
    language: str
    code: str
    happened: str


class Document(NamedTuple):
    """A document: its title, source and terms, its digest, the modules of its names, and its rows by heading."""

    title: str
    source: str
    sha256: str
    modules: tuple[str, ...]
    rows: Mapping[str, tuple[Claim, ...]]


@cache
def documents() -> Mapping[str, Document]:
    """Return the documents by name."""
    return {file.stem: _read(file) for file in sorted(TABLES.glob("*.toml"))}


def claims() -> tuple[Claim, ...]:
    """Return the rows of all tables."""
    return tuple(claim for document in documents().values() for rows in document.rows.values() for claim in rows)


def samples() -> list[Sample]:
    """Return the samples of all documents, in their order."""
    files = sorted(SAMPLES.glob("*.md"))
    return [Sample(file.stem, *found) for file in files for found in _SAMPLE.findall(file.read_text(encoding="utf-8"))]


def _read(file: Path) -> Document:
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    rows = {
        heading: tuple(Claim(file.stem, heading, *row) for row in entry["rows"])
        for heading, entry in table["claims"].items()
    }
    return Document(table["title"], table["source"], table["sha256"], tuple(table["modules"]), rows)


def build_page(name: str) -> str:
    """Return the page of a document."""
    document = documents()[name]
    found = [claim for rows in document.rows.values() for claim in rows]
    counts = {part: sum(claim.part == part for claim in found) for part in PARTS}
    lines = [
        f"# {document.title}",
        "",
        f"What of the claims of the document `{name}` holds here: [works](#works) {counts['works']}, "
        f"[differs](#differs) {counts['differs']}, [refused](#refused) {counts['refused']}. Its [samples](#samples) "
        "are shown with what happens.",
        document.source,
        "",
        f"`tests/conformance/tables/{name}.toml` is the source of this page (`make conformance`). A test evaluates the "
        "expression of each row, and compares it with what the row gives.",
    ]
    for part, title in PARTS.items():
        lines += ["", f"## {title}"]
        if not counts[part]:
            lines += ["", "Nothing."]
        for heading, rows in document.rows.items():
            its = [row for row in rows if row.part == part]
            if its:
                lines += ["", f"### {heading}" if part == "works" else f"**{heading}**", ""]
                lines += _table(["claim", "expression", "gives", *_COLUMNS[part]], map(_cells, its))
    return "\n".join([*lines, "", *_sample_lines(name)])


def _sample_lines(name: str) -> Iterator[str]:
    yield from (
        "## Samples",
        "",
        "Each sample of the document as it is, and what happens when it is run in an empty folder. Models answer on",
        "loopback. What begins with `+` was added to it; a suite is run by `holodeck-action run`.",
    )
    for sample in samples():
        if sample.document == name:
            yield from ("", f"**{sample.heading}**", "", f"```{sample.language} norun", sample.code, "```")
            yield from ("", "```text", sample.happened, "```")
    yield ""


def _cells(claim: Claim) -> list[str]:
    shown = [f"test `{claim.test}`", ""] if claim.test else [_code(claim.expression), _code(claim.expected)]
    return [claim.text, *shown, *([claim.reason] if claim.reason else [])]


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def _table(columns: Sequence[str], rows: Iterator[list[str]]) -> Iterator[str]:
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
