"""The cases of a suite: from agent.yaml, from files of several formats, or from a function."""

from __future__ import annotations

import glob
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from holodeck_action.seam import registry
from holodeck_action.seam.manifest import Table
from holodeck_action.suite.cases.columns import OTHERS, ColumnMap
from holodeck_action.suite.cases.sources import CaseFile, Sources, read_content, text_digest
from holodeck_action.suite.cases.tables import (
    TableError,
    delimited_cases,
    json_line_cases,
    row_cases,
    sheet_cases,
    table_text,
)
from holodeck_action.suite.checkout import MOST_YAML
from holodeck_action.suite.errors import Problem, quoted
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.policy import Policy
from holodeck_action.suite.model.targets import ConversationsTarget
from holodeck_action.suite.yaml.document import Document, MarkedList, MarkedMap
from holodeck_action.suite.yaml.reading import read_yaml
from holodeck_action.text.foreign import RefusedFileError
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from holodeck_action.suite.model.environments import Environment

MOST_FILES = 1000
"""Maximum number of files that one pattern may match."""
MOST_CASES = 1_000_000
"""Maximum number of cases in the tables of a suite."""
_PYTHON = "python:"
_REFERENCE = lazy_pattern(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_TEXT = (*_DELIMITERS, ".jsonl", ".ndjson", ".json", ".yaml", ".yml")
_SHEET = lazy_pattern(r"([^#]*(\.\w+))#(.+)", re.DOTALL)
_SPREADSHEETS = (".xls", ".xlsm", ".xlsb", ".ods", ".numbers")
"""Suffixes of spreadsheet files that cannot be read."""
_WILD = lazy_pattern(r"[*?]|\[.+\]")


def _is_binary(data: bytes) -> bool:
    return b"\0" in data


class RowsError(Exception):
    """Rows cannot be read; the message is one clause with the reason and a remedy."""


class RowSource(Protocol):
    """Reads rows of cases in a process with limits. Each row is one line with a JSON object."""

    def read_table(self, kind: Table, file: BinaryIO, sheet: str | None) -> Iterator[bytes]:
        """Yield the rows of a file that an extension reads. `sheet` names the sheet to read; None for the first sheet,
        and for files without sheets.

        Raises:
            RowsError: the file cannot be read.
        """

    def call_function(self, reference: str, environment: Environment | None) -> Iterator[bytes]:
        """Call a function of the checkout (`module.path:function`) in an environment, and yield the rows it returns.

        Raises:
            RowsError: the function returns no rows.
        """


class Conversations(Protocol):
    """Conversations that took place earlier, as cases with recorded answers, or as answers to the suite's cases.

    Attributes:
        target: the target that gives the answers.
        notices: notices for the reader, one sentence each.
        missing_input_message: message for a metric whose inputs these conversations lack; `{}` stands for their names.
            None if the cases are the suite's.
    """

    target: ConversationsTarget
    notices: tuple[str, ...]
    missing_input_message: str | None

    def rows(self) -> Iterator[bytes] | None:
        """Yield each case as one line of JSON: an object with fields of a `TableCase`. None to keep the suite's
        cases."""


def add_conversations(sources: Sources, conversations: Conversations) -> bool:
    """Add conversations as the cases of a suite, in place of the cases that its files name; return whether there are
    any to add."""
    sources.notices += conversations.notices
    rows = conversations.rows()
    if rows is None:
        return False
    name = f"{conversations.target.name}:{conversations.target.path}"
    columns = ColumnMap({}, name, sources.metrics.written)
    cases = [*row_cases(rows, columns)]
    table = Document(name, None, not columns.problems, tuple(columns.problems), frozenset())
    sources.case_files.append(CaseFile(table, cases, columns))
    sources.problems += columns.problems
    sources.parts.append(("cases", conversations.target.digest.encode()))
    sources.cases_found = not columns.problems
    return True


def find_cases(sources: Sources, policy: Policy | None, rows: RowSource | None) -> None:
    """Find the cases of a suite, and add them and the problems of their files to `sources`.

    Args:
        sources: the files that were read; receives the cases.
        policy: maps columns to fields; None if it is invalid, so that tables cannot be read.
        rows: reads files in formats of extensions and calls functions; None if neither is available.
    """
    root = sources.agent.root
    if not isinstance(root, MarkedMap):
        return
    written, file = root.get("test_cases"), root.get("test_cases_file")
    before = len(sources.problems)
    if file is None:
        _add_cases(sources, sources.agent, written, ("test_cases",))
    else:
        _Finder(sources, policy, rows).find(written, file)
    for found in sources.case_files:
        if found.document is not sources.agent:
            sources.problems += found.document.problems
    _check_columns(sources, {} if policy is None else policy.columns)
    sources.cases_found = bool(sources.case_files) and len(sources.problems) == before


def _check_columns(sources: Sources, columns: Mapping[str, str | None]) -> None:
    """Check the policy file's `columns`: add a problem if the suite has no table, or for each name that is not a column
    of any table."""
    if not columns or sources.policy is None or not sources.case_files:
        return
    tables = [file.columns for file in sources.case_files if file.columns is not None]
    if not tables:
        message = "has no effect: the cases are not in a table (CSV, TSV, Excel, JSON, JSON Lines, Parquet or python:)"
        sources.problems.append(sources.policy.problem(("columns",), message, key=True))
    seen = sorted(set[str]().union(*(table.seen for table in tables)))
    if columns.get(OTHERS) is not None:
        message = "must be null: it leaves out the columns that fill no field of a case"
        sources.problems.append(sources.policy.problem(("columns", OTHERS), message))
    for name in columns if seen else ():
        if name not in seen and name != OTHERS:
            guess = did_you_mean(name, seen) or f" (there are: {', '.join(map(quoted, seen[:20]))})"
            message = f"{quoted(name)} is not a column of the cases{guess}"
            sources.problems.append(sources.policy.problem(("columns", name), message, key=True))


class _Finder:
    def __init__(self, sources: Sources, policy: Policy | None, rows: RowSource | None) -> None:
        self._sources = sources
        self._columns = None if policy is None else policy.columns
        self._environment = None if policy is None else policy.environment
        self._rows = rows
        root: MarkedMap = sources.agent.root
        self._mark = sources.agent.mark(*root.value_position("test_cases_file"))
        self._hidden = root.is_substituted("test_cases_file")
        self._sheet: str | None = None

    def _add_problem(self, message: str) -> None:
        self._sources.problems.append(Problem(self._mark, "test_cases_file", message))

    def find(self, entry: Any, file: Any) -> None:
        sources = self._sources
        if entry is not None:
            self._add_problem("cannot be combined with test_cases: keep one of them")
        elif not isinstance(file, str) or not file.strip() or sources.agent.root.is_unset("test_cases_file"):
            # Text that is not a path is refused when the fields are validated.
            return
        elif file.startswith(_PYTHON):
            self._read_python(file, file.removeprefix(_PYTHON).strip())
        else:
            for name in self._matching_files(self._split_sheet(file)):
                self._read_file(name)

    def _split_sheet(self, file: str) -> str:
        """Return the path without the name of a sheet at its end; store the sheet's name in this object."""
        found = _SHEET.fullmatch(file)
        table = None if found is None else registry.tables().get(found[2].lower())
        if found is None or table is None or not table.sheets or os.path.lexists(self._sources.folder / file):
            return file
        self._sheet = found[3]
        return found[1]

    def _matching_files(self, file: str) -> list[str]:
        """Return the sorted files that match a pattern; only the path itself if it exists or has no wildcards."""
        folder = self._sources.folder
        if not _WILD.search(file) or os.path.lexists(folder / file):
            return [file]
        shown = self._display_name(file)
        fixed = Path(*(Path(file).parts[: next(i for i, part in enumerate(Path(file).parts) if _WILD.search(part))]))
        try:
            self._sources.checkout.resolve(fixed)
        except RefusedFileError as error:
            self._add_problem(f"{shown} {error.clause}")
            return []
        found = sorted(name for name in glob.iglob(file, root_dir=folder, recursive=True) if (folder / name).is_file())
        if not found:
            self._add_problem(f"{shown} matches no file (allowed: a path or a pattern relative to agent.yaml)")
        if len(found) > MOST_FILES:
            self._add_problem(f"{shown} matches {len(found):,} files, more than {MOST_FILES:,}")
            return []
        return found

    def _display_name(self, file: str) -> str:
        return "the file" if self._hidden else file

    def _read_file(self, name: str) -> None:
        sources = self._sources
        relative = Path(os.path.relpath(sources.folder / name, sources.folder)).as_posix()
        kind = Path(name).suffix.lower()
        try:
            table = None if kind in _TEXT else registry.find_table(kind)
        except registry.ExtensionError as error:
            self._add_problem(f"{self._display_name(name)}: {error}")
            return
        if table is not None:
            self._read_rows(table, name, relative)
            return
        data, reason = read_content(sources.checkout, name)
        if data is None:
            hint = " (allowed: a path relative to agent.yaml)" if reason == "does not exist" else ""
            self._add_problem(f"{self._display_name(name)} {reason}{hint}")
            return
        if kind in _SPREADSHEETS:
            self._add_problem(f"{self._display_name(name)} cannot be read: save the spreadsheet as .xlsx or .csv")
            return
        if kind not in _TEXT and data.parse(_is_binary):
            subject = f"the file format {kind}" if kind else "a binary file without a suffix"
            self._add_problem(f"{self._display_name(name)}: {subject} {registry.unsupported_phrase(_TEXT)}")
            return
        sources.parts.append(("cases", text_digest(data)))
        if kind in _DELIMITERS:
            delimiter = _DELIMITERS[kind]
            text = partial(data.parse, partial(table_text, file=relative), TableError)
            self._add_table(relative, lambda columns: delimited_cases(text(), delimiter, columns))
        elif kind in (".jsonl", ".ndjson"):
            self._add_table(relative, lambda columns: json_line_cases(data.parse(io.BytesIO), columns))
        else:
            document = read_yaml(data, file=relative, environ=sources.environ, checks=sources.metrics.written)
            self._read_document(document, is_json=kind == ".json")

    def _read_document(self, document: Document, *, is_json: bool) -> None:
        root = document.root
        path: tuple[str, ...] = ()
        if isinstance(root, MarkedMap) and "test_cases" in root:
            root, path = root["test_cases"], ("test_cases",)
        if not path and not (root is None or isinstance(root, MarkedList)):
            message = "must be a list of cases, or a mapping with the list under test_cases"
            self._sources.problems.append(document.problem((), message))
            return
        if is_json and self._columns and isinstance(root, MarkedList) and all(isinstance(r, MarkedMap) for r in root):
            cases = root
            self._add_table(document.file, lambda columns: (columns.case_from_row(row) for row in cases), document)
            return
        _add_cases(self._sources, document, root, path)

    def _read_rows(self, kind: Table, name: str, relative_path: str) -> None:
        try:
            with self._sources.checkout.open(name, MOST_YAML) as file:
                digest = hashlib.sha256()
                cases_of = sheet_cases if kind.sheets else row_cases
                if not kind.sheets:
                    digest.update(file.read())
                    file.seek(0)
                rows = self._require_rows().read_table(kind, file, self._sheet)
                if kind.sheets:
                    # Saving a spreadsheet changes its bytes, but not its cells.
                    rows = _hash_lines(rows, digest)
                self._add_table(relative_path, lambda columns: cases_of(rows, columns))
                self._sources.parts.append(("cases", digest.digest()))
        except RowsError as error:
            self._add_problem(f"{self._display_name(name)}: {error}")
        except FileNotFoundError:
            self._add_problem(f"{self._display_name(name)} does not exist (allowed: a path relative to agent.yaml)")
        except OSError as error:
            clause = error.clause if isinstance(error, RefusedFileError) else f"cannot be read: {error.strerror}"
            self._add_problem(f"{self._display_name(name)} {clause}")

    def _read_python(self, file: str, reference: str) -> None:
        if not _REFERENCE.fullmatch(reference):
            self._add_problem("must be python:MODULE:FUNCTION, such as python:cases.orders:make")
            return
        digest = hashlib.sha256()
        try:
            rows = _hash_lines(self._require_rows().call_function(reference, self._environment), digest)
            self._add_table(file, lambda columns: row_cases(rows, columns))
        except RowsError as error:
            self._add_problem(str(error))
        self._sources.parts.append(("cases", digest.digest()))

    def _require_rows(self) -> RowSource:
        if self._rows is None:
            raise RowsError("cannot be read here, since reading it runs code: use the command `holodeck-action`")
        return self._rows

    def _add_table(
        self, name: str, read_cases: Callable[[ColumnMap], Iterator[MarkedMap]], document: Document | None = None
    ) -> None:
        """Add the cases of a table; `document` is the table if it is already parsed."""
        if self._columns is None:
            return
        columns = ColumnMap(self._columns, name, self._sources.metrics.written)
        cases: list[Any] = []
        try:
            cases += self._within_limit(read_cases(columns), columns)
        except TableError as error:
            columns.problems.append(error.problem)
        if columns.broken:
            # Problems of the rows would only repeat those of the columns.
            cases.clear()
        problems = (*(document.problems if document is not None else ()), *columns.problems)
        secrets = document.secrets if document is not None else frozenset[str]()
        table = Document(name, None, not problems, problems, secrets, columns.sheet)
        self._sources.case_files.append(CaseFile(table, cases, columns))

    def _within_limit(self, cases: Iterable[MarkedMap], columns: ColumnMap) -> Iterator[MarkedMap]:
        """Yield the cases of a table as long as the suite has at most `MOST_CASES`.

        Raises:
            TableError: there are more.
        """
        before = sum(len(file.cases) for file in self._sources.case_files)
        for number, case in enumerate(cases, start=before):
            if number >= MOST_CASES:
                columns.broken = True
                message = f"is case {MOST_CASES + 1:,}, but a suite has at most {MOST_CASES:,}: make several suites"
                raise TableError(Problem(columns.mark(case.line, case.column), "", message))
            yield case


def _hash_lines(lines: Iterator[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    """Yield lines, and add them to a digest."""
    for line in lines:
        digest.update(line)
        yield line


def _add_cases(sources: Sources, document: Document, cases: Any, path: tuple[str, ...]) -> None:
    if cases is None or isinstance(cases, MarkedList):
        sources.case_files.append(CaseFile(document, cases or []))
    else:
        sources.problems.append(Problem(document.mark_at(path), "test_cases", "must be a list"))
