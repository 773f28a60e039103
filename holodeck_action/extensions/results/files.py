"""Opens results files of other programs, and recognises their formats by their content."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import ValidationError, convert

from holodeck_action.extensions.results import deepeval_runs, harbor, inspect_logs, junit, plugin_eval, promptfoo, vally
from holodeck_action.extensions.results.stored import FormatError, StoredResults
from holodeck_action.text.foreign import Foreign, ForeignError, open_file, read_rest
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line

MOST_BYTES = 200_000_000
"""Maximum size of a results file."""
PLUGIN_EVAL = "claude plugin eval"
_HEAD = 4096
_OWN = b'"schema_version"'
_OTHERS = lazy_pattern(rb'"trial_uri"|"schema_version"\s*:\s*"ATIF-')
"""What files of others have that have a version under the same name as this program's."""
_ZIP = b"PK\x03\x04"
_BLANK = b"\xef\xbb\xbf \t\r\n"


_CONSTANT = lazy_pattern(rb"(?<=[:\[,])\s*(?:NaN|-?Infinity)(?=\s*[,}\]])")


class Reading(NamedTuple):
    """How results are read.

    Attributes:
        file: name of the file in positions of cases.
        pass_marks: least passing score of a metric, by its name; under the empty name, of all others.
        beside: returns the JSON value of another file, by its path from the file's folder; None if there is none.
        without_plugin: whether to read the runs of plugin eval without the plugin.
    """

    file: str
    pass_marks: Mapping[str, float]
    beside: Callable[[str], Any | None]
    without_plugin: bool


class Format(NamedTuple):
    """A format of results.

    Attributes:
        name: the format in messages.
        fits: whether a JSON value is of this format.
        read: reads the value.
    """

    name: str
    fits: Callable[[Any], bool]
    read: Callable[[Any, Reading], StoredResults]


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(name in value for name in names)


def _first_has(*names: str) -> Callable[[Any], bool]:
    fits = _has(*names)
    return lambda value: any(map(fits, _lines(value)[:1]))


def _lines(value: Any) -> list[Any]:
    """Return the values of a file's lines; a file with one line is that line's value."""
    return value if isinstance(value, list) else [value]


def _is_log(value: Any) -> bool:
    """Return whether a value is a log of Inspect, as JSON or read from its zip file."""
    return isinstance(value, inspect_logs.Log) or _has("version", "status", "eval")(value)


def _is_trajectory(value: Any) -> bool:
    """Return whether a value is a trajectory in ATIF."""
    return _has("schema_version", "steps")(value) and str(value["schema_version"]).startswith("ATIF-")


FORMATS: tuple[Format, ...] = (
    Format(
        "promptfoo JSON",
        _has("evalId", "results"),
        lambda value, how: promptfoo.read_document(convert(value, promptfoo.Document), how.file),
    ),
    Format(
        "Inspect",
        _is_log,
        lambda value, how: inspect_logs.read_log(convert(value, inspect_logs.Log), how.file, how.pass_marks),
    ),
    Format(
        PLUGIN_EVAL,
        _has("schemaVersion", "suite", "cases"),
        lambda value, how: plugin_eval.read_document(
            convert(value, plugin_eval.Document), without_plugin=how.without_plugin
        ),
    ),
    Format(
        "DeepEval",
        _has("testCases", "metricsScores"),
        lambda value, how: deepeval_runs.read_document(
            convert(value, deepeval_runs.Document), how.file, how.pass_marks
        ),
    ),
    Format(
        "Vally",
        _first_has("status", "gradeResult", "trajectory"),
        lambda value, how: vally.read_lines(_lines(value), how.file, how.pass_marks),
    ),
    Format(
        "Harbor",
        _has("task_checksum", "trial_name"),
        lambda value, how: harbor.read_trial(convert(value, harbor.Trial), how.file, how.pass_marks, how.beside),
    ),
    Format(
        "ATIF",
        _is_trajectory,
        lambda value, how: harbor.read_trajectory(convert(value, harbor.Trajectory), how.file),
    ),
    Format(
        "JUnit XML",
        lambda value: isinstance(value, junit.Report),
        lambda value, how: junit.read_report(value, how.file),
    ),
    Format(
        "promptfoo JSONL",
        _first_has("testIdx", "promptIdx", "testCase"),
        lambda value, how: promptfoo.read_rows(convert(_lines(value), list[promptfoo.Row]), how.file),
    ),
)
"""The known formats; a list is the lines of a file."""


def is_own(path: GivenPath) -> bool:
    """Return whether a path names results of this program: a folder, a missing file, or a results.json.

    Raises:
        FormatError: the file cannot be opened.
    """
    if not os.path.isfile(path):
        return True
    try:
        with open_file(path, None) as file:
            head = file.read(_HEAD)
            return _OWN in head and _OTHERS.search(head) is None
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}") from error


def read_results(
    path: GivenPath, pass_marks: Mapping[str, float], *, without_plugin: bool = False
) -> StoredResults | None:
    """Read a results file of another program.

    Args:
        path: the file.
        pass_marks: see `Reading`.
        without_plugin: see `Reading`.

    Returns:
        The results; None if the file is of no known format.

    Raises:
        FormatError: the file cannot be used.
    """
    try:
        with open_file(path, MOST_BYTES) as file:
            content = read_rest(file, MOST_BYTES)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}") from error
    start = content.parse(lambda data: data[:_HEAD].strip(_BLANK)[:4])
    readable = start == _ZIP or start.startswith(b"<")
    try:
        if start == _ZIP:
            value: Any = inspect_logs.read_archive(content, MOST_BYTES)
        else:
            value = junit.read_xml(content) if readable else _lines_or_value(content)
        found = next((each for each in FORMATS if each.fits(value)), None)
        if without_plugin and (found is None or found.name != PLUGIN_EVAL):
            raise FormatError(f"is not of {PLUGIN_EVAL}, whose runs --without-plugin decides")
        return (
            None
            if found is None
            else found.read(value, Reading(str(path), pass_marks, partial(_value_beside, path), without_plugin))
        )
    except ForeignError as error:
        if readable:
            raise FormatError(str(error)) from error
        return None
    # msgspec raises the second for half of a character where no text may be.
    except (ValidationError, UnicodeEncodeError) as error:
        raise FormatError(f"is not a valid file of its format: {one_line(str(error), 300)}") from error


def _value_beside(path: GivenPath, name: str) -> Any | None:
    other = path.parent / name
    if not os.path.isfile(other):
        return None
    try:
        with open_file(other, MOST_BYTES) as file:
            return read_rest(file, MOST_BYTES).json()
    except (OSError, ForeignError) as error:
        raise FormatError(f"has a file {name} that cannot be read: {one_line(str(error), 200)}") from error


def _lines_or_value(content: Foreign) -> Any:
    """Return the JSON value of a file; the list of its lines' values if it has several lines that are each a value."""
    lines = [line for line in content.lines() if line.parse(lambda data: data.strip(_BLANK))]
    if len(lines) > 1 or not lines:
        try:
            first = lines[0].json() if lines else None
        except ForeignError:
            first = None
        if isinstance(first, dict):
            return _values(lines)
    try:
        return content.json()
    except ForeignError as error:
        if "NaN" not in str(error) and "Infinity" not in str(error):
            raise
    # Inspect writes a score that there is none of as NaN, which is not JSON.
    return content.parse(lambda data: Foreign(_CONSTANT.sub(b"null", data)).json(), ForeignError)


def _values(lines: Sequence[Foreign]) -> list[Any]:
    values = []
    for number, line in enumerate(lines, start=1):
        try:
            values.append(line.json())
        except ForeignError as error:
            raise FormatError(f"line {number}: {error}") from error
    return values
