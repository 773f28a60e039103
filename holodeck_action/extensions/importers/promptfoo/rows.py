"""Reads test cases from CSV files, whose `__expected` columns contain assertions as text."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.extensions.importers.promptfoo.patterns import SPACES
from holodeck_action.extensions.importers.source import UnfitError
from holodeck_action.text.lazy_patterns import lazy_pattern

LISTS = frozenset(("contains-all", "contains-any", "icontains-all", "icontains-any"))
_SCORED = frozenset(
    ("answer-relevance", "classifier", "context-faithfulness", "context-recall", "context-relevance", "cost", "latency")
) | frozenset(("levenshtein", "perplexity-score", "perplexity", "rouge-n", "similar", "starts-with"))

# Possessive quantifiers: matching takes linear time.
_BETWEEN = lazy_pattern(f"[{SPACES},]*+")
_QUOTED = lazy_pattern(rf'"((?:\\["\\]|""|[^"])*+)"[{SPACES}]*+(?:,|\Z)')
_BACKSLASH_LAST = lazy_pattern(rf'"([^"]*+)"[{SPACES}]*+(?:,|\Z)')
"""Matches a quoted text whose last character is a backslash that escapes nothing: `"C:\\"`."""


class CaseRow(Struct, frozen=True):
    """A row of a CSV file of cases: its line, the values of variables, the assertions, and other keys of the test."""

    line: int
    vars: Mapping[str, str]
    assertions: tuple[dict[str, Any], ...]
    test: Mapping[str, Any]


def case_rows(text: str, types: frozenset[str]) -> Iterator[CaseRow]:
    """Yield the cases in the content of a CSV file.

    Args:
        text: content of the file.
        types: names of all assertion types, without the prefix `not-`.

    Raises:
        UnfitError: the file is not a valid table.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        line = reader.line_num + 1
        for row in reader:
            if row:
                if len(row) != len(header):
                    raise UnfitError(f"line {line} has {len(row)} cells, and the header {len(header)}")
                yield _read_row(dict(zip(header, row, strict=True)), line, types)
            line = reader.line_num + 1
    except csv.Error as error:
        raise UnfitError(f"line {reader.line_num} is not CSV: {error}") from None


def _read_row(cells: Mapping[str, str], line: int, types: frozenset[str]) -> CaseRow:
    values: dict[str, str] = {}
    assertions: list[dict[str, Any]] = []
    configured: dict[int, float] = {}
    test: dict[str, Any] = {}
    options: dict[str, str] = {}
    for key, cell in cells.items():
        if key.startswith("__expected"):
            if cell.strip():
                assertions.append(parse_expected(cell.strip(), types))
        elif key in ("__prefix", "__suffix"):
            options[key[2:]] = cell
        elif key in ("__description", "__providerOutput"):
            if cell:
                test[key[2:]] = cell
        elif key == "__metric":
            test["metric"] = cell
        elif key == "__threshold":
            test["threshold"] = number = number_in(cell)
            if number is None and cell.strip():
                raise UnfitError(f"the threshold on line {line} is not a number")
        elif key.startswith("__config:"):
            _, named, setting = [*key.split(":"), "", ""][:3]
            column = re.fullmatch(r"__expected([0-9]{0,4})", named)
            index = int(column[1] or 1) - 1 if column else -1
            number = number_in(cell)
            if index < 0 or setting != "threshold" or number is None:
                raise UnfitError(f"the column {key} cannot be read on line {line}")
            configured[index] = number
        elif not key.startswith("__metadata"):
            values[key] = cell
    for index, threshold in configured.items():
        if index < len(assertions):
            assertions[index]["threshold"] = threshold
    metric = test.pop("metric", None)
    for assertion in assertions:
        if metric:
            assertion["metric"] = metric
    return CaseRow(line, values, tuple(assertions), {**test, **({"options": options} if options else {})})


def parse_expected(cell: str, types: frozenset[str]) -> dict[str, Any]:
    """Parse an assertion such as `icontains-any: one, two`; text without an assertion type means `equals`.

    Raises:
        UnfitError: a list of strings has an unclosed quote.
    """
    for start, kind in (
        ("javascript:", "javascript"),
        ("fn:", "javascript"),
        ("eval:", "javascript"),
        ("grade:", "llm-rubric"),
        ("llm-rubric:", "llm-rubric"),
        ("python:", "python"),
    ):
        if cell.startswith(start):
            value = cell[len(start) :]
            return {"type": kind, "value": value if kind == "llm-rubric" else value.strip()}
    if cell.startswith("file://") and re.search(r"\.[cm]?[jt]s(:|$)", cell):
        return {"type": "javascript", "value": cell}
    if cell.startswith("file://") and re.search(r"\.py(:|$)", cell):
        return {"type": "python", "value": cell}
    found = _match_type(cell, types)
    if found is None:
        return {"type": "equals", "value": cell}
    negated, kind, threshold, value = found[1] or "", found[2], found[3], found[4]
    made: dict[str, Any] = {"type": f"{negated}{kind}"}
    if kind in LISTS:
        made["value"] = split_list(value) if value else value
    elif value is not None:
        made["value"] = value if kind in ("contains-json", "is-json") else value.strip()
    if kind in _SCORED:
        made["threshold"] = float(threshold) if threshold else 0.8 if kind == "similar" else 0.75
    return made


def _match_type(cell: str, types: frozenset[str]) -> re.Match[str] | None:
    for kind in sorted(types, key=len, reverse=True):
        found = re.fullmatch(rf"(not-)?({re.escape(kind)})(?:\((\d+(?:\.\d+)?)\))?(?::(.*))?", cell, re.S)
        if found is not None:
            return found
    return None


def split_list(text: str) -> list[str]:
    """Split a string at commas outside of double quotes.

    Raises:
        UnfitError: a quote is not closed, or text follows a closing quote.
    """
    found: list[str] = []
    at = _BETWEEN.match(text, 0).end()  # type: ignore[union-attr]  # it matches everywhere
    while at < len(text):
        if text[at] != '"':
            comma = text.find(",", at)
            end = len(text) if comma < 0 else comma
            found.append(text[at:end].strip(SPACES))
        else:
            quoted = _QUOTED.match(text, at) or _BACKSLASH_LAST.match(text, at)
            if quoted is None:
                raise UnfitError("a quote in the list of texts is not closed, or no comma follows it")
            found.append(re.sub(r'\\(["\\])|"(")', lambda part: part[1] or part[2], quoted[1]))
            end = quoted.end()
        at = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
    return found


def number_in(cell: str) -> float | None:
    """Parse a string that is a finite decimal number; return None for any other string."""
    if not re.fullmatch(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*", cell):
        return None
    number = float(cell)
    return number if math.isfinite(number) else None
