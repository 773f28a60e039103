"""The report of an import: one table row for each assertion and setting of the imported file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from holodeck_action.text.plain import one_line


class Outcome(StrEnum):
    """How closely an imported assertion matches the original; the members are listed from best to worst."""

    METRIC = "metric"
    """A metric that gives the same verdict."""
    GRADER = "grader"
    """A Python grader that gives the same verdict."""
    SIMILAR = "similar"
    """A metric of the same kind with another computation or judge prompt."""
    MISSING = "missing"
    """There is no counterpart."""


class Row(Struct, frozen=True):
    """The outcome of importing one assertion or one setting.

    Attributes:
        file: the file that contains the assertion, relative to the folder of the imported file.
        line: line in the file, from 1.
        column: column in the line, or the number of the assertion on the line.
        source: name of the assertion in the imported file, such as `icontains`.
        becomes: name of the metric or grader in the written suite; empty if there is no counterpart.
        outcome: how closely the counterpart matches.
        note: differences from the original and what to do about them; may be empty.
        cases: number of written cases with the assertion; 0 for a setting.
        asserts: whether the row is an assertion; settings are not counted in the totals.
    """

    file: str
    line: int
    source: str
    becomes: str
    outcome: Outcome
    note: str = ""
    cases: int = 0
    asserts: bool = True
    column: int = 1


_ORDER = tuple(Outcome)
_OUTCOME_TEXTS = {
    Outcome.METRIC: "as metrics",
    Outcome.GRADER: "as graders",
    Outcome.SIMILAR: "as similar metrics",
    Outcome.MISSING: "without an equivalent",
}
_CELL_LIMIT = 300
"""Maximum number of characters in a table cell."""


def merge_rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Merge the rows of the same assertion: add up their cases and keep the worst outcome.

    The result is sorted by position in the imported files.
    """
    found: dict[tuple[str, int, int, str, bool], Row] = {}
    for row in rows:
        key = (row.file, row.line, row.column, row.source, row.asserts)
        other = found.get(key)
        if other is None:
            found[key] = row
            continue
        worst = max(other, row, key=lambda each: _ORDER.index(each.outcome))
        becomes = ", ".join(dict.fromkeys(part for each in (other, row) for part in each.becomes.split(", ") if part))
        notes = "; ".join(dict.fromkeys(part for each in (other, row) for part in each.note.split("; ") if part))
        cases = other.cases + row.cases
        found[key] = replace(row, becomes=becomes, outcome=worst.outcome, note=notes, cases=cases)
    return tuple(sorted(found.values(), key=lambda row: (row.file, row.line, row.column)))


def unmatched_rows(rows: Iterable[Row]) -> Sequence[Row]:
    """Return the rows without a counterpart, both assertions and settings."""
    return [row for row in rows if row.outcome is Outcome.MISSING]


def totals_text(rows: Sequence[Row]) -> str:
    """Return a sentence with the number of assertions, in total and for each outcome."""
    asserting = [row for row in rows if row.asserts]
    counts = {outcome: sum(row.outcome is outcome for row in asserting) for outcome in Outcome}
    told = ", ".join(f"{count} {_OUTCOME_TEXTS[outcome]}" for outcome, count in counts.items() if count)
    return f"{len(asserting)} assertion{'' if len(asserting) == 1 else 's'}{': ' if told else ''}{told}"


def report_table(rows: Sequence[Row]) -> str:
    """Return the import report as plain text: aligned columns, then the totals."""
    cells = [("line", "assertion", "becomes", "note"), *((_position_text(row), *_cell_texts(row)) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in cells
    ]
    return "".join(f"{line.rstrip()}\n" for line in (*lines, totals_text(rows)))


def report_markdown(rows: Sequence[Row]) -> str:
    """Return the import report as Markdown: a table, then the totals."""
    lines = ["| line | assertion | becomes | note |", "|---|---|---|---|"]
    for row in rows:
        cells = (_position_text(row), *_cell_texts(row))
        lines.append(f"| {' | '.join(_escape(cell) for cell in cells)} |")
    return "".join(f"{line}\n" for line in (*lines, "", totals_text(rows)))


def report_json(rows: Sequence[Row]) -> str:
    """Return the import report as JSON: a list with the fields of `Row`."""
    return f"{json.dumps(to_builtins(rows), indent=1, ensure_ascii=False)}\n"


def _position_text(row: Row) -> str:
    return f"{one_line(row.file)}:{row.line}"


def _cell_texts(row: Row) -> tuple[str, str, str]:
    becomes = one_line(row.becomes, _CELL_LIMIT) if row.outcome is not Outcome.MISSING else "no equivalent"
    return one_line(row.source, _CELL_LIMIT), becomes, one_line(row.note, _CELL_LIMIT)


def _escape(cell: str) -> str:
    for character in "\\`*_<>[]|":
        cell = cell.replace(character, f"\\{character}")
    return cell
