"""What became of each assertion of the imported file: a table that leaves none out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from holodeck_action.text.plain import one_line


class Outcome(StrEnum):
    """How near to the original an imported assertion is, from the best to none."""

    METRIC = "metric"
    """A metric that gives the same verdict."""
    GRADER = "grader"
    """A grader in a file of the suite that gives the same verdict."""
    SIMILAR = "similar"
    """A metric of the same kind that computes or asks in another way."""
    MISSING = "missing"
    """Nothing is equal."""


class Row(Struct, frozen=True):
    """One assertion, or one setting, of the imported file.

    Attributes:
        file: where it stands, relative to the imported file's folder.
        line: its line; 1 is the first.
        column: its column on that line, or its number on it.
        source: what it is there, such as `icontains`.
        becomes: what it is here; empty when nothing is equal.
        outcome: how near that is.
        note: what differs and what to do; may be empty.
        cases: how many of the written cases have it; 0 for a setting.
        asserts: whether it is an assertion: settings do not count in the totals.
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
_WORDS = {
    Outcome.METRIC: "as metrics",
    Outcome.GRADER: "as graders",
    Outcome.SIMILAR: "as similar metrics",
    Outcome.MISSING: "without an equal",
}
_SHOWN = 300
"""Characters of a cell."""


def merged(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Put the rows of one assertion together, whose cases add up and whose worst outcome stays, in the file's order."""
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


def missing(rows: Iterable[Row]) -> Sequence[Row]:
    """Return the assertions and settings without an equal."""
    return [row for row in rows if row.outcome is Outcome.MISSING]


def totals(rows: Sequence[Row]) -> str:
    """Say how many assertions there are, and what became of them."""
    asserting = [row for row in rows if row.asserts]
    counts = {outcome: sum(row.outcome is outcome for row in asserting) for outcome in Outcome}
    told = ", ".join(f"{count} {_WORDS[outcome]}" for outcome, count in counts.items() if count)
    return f"{len(asserting)} assertion{'' if len(asserting) == 1 else 's'}{': ' if told else ''}{told}"


def table(rows: Sequence[Row]) -> str:
    """Return the account as aligned columns and the totals."""
    cells = [("line", "assertion", "becomes", "note"), *((_place(row), *_texts(row)) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in cells
    ]
    return "".join(f"{line.rstrip()}\n" for line in (*lines, totals(rows)))


def markdown(rows: Sequence[Row]) -> str:
    """Return the account as a table of Markdown and the totals."""
    lines = ["| line | assertion | becomes | note |", "|---|---|---|---|"]
    for row in rows:
        cells = (_place(row), *_texts(row))
        lines.append(f"| {' | '.join(_escaped(cell) for cell in cells)} |")
    return "".join(f"{line}\n" for line in (*lines, "", totals(rows)))


def as_json(rows: Sequence[Row]) -> str:
    """Return the account as JSON: a list with the fields of `Row`."""
    return f"{json.dumps(to_builtins(rows), indent=1, ensure_ascii=False)}\n"


def _place(row: Row) -> str:
    return f"{one_line(row.file)}:{row.line}"


def _texts(row: Row) -> tuple[str, str, str]:
    becomes = one_line(row.becomes, _SHOWN) if row.outcome is not Outcome.MISSING else "no equal"
    return one_line(row.source, _SHOWN), becomes, one_line(row.note, _SHOWN)


def _escaped(cell: str) -> str:
    for character in "\\`*_<>[]|":
        cell = cell.replace(character, f"\\{character}")
    return cell
