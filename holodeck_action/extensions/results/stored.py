"""The results of another program in one form; each reader of a format returns them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.record.record import ToolInvocation, Usage
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.identity import canonical_json
from holodeck_action.text.plain import one_line


class StoredCheck(Struct, frozen=True):
    """One grade that the other program gave to an answer.

    Attributes:
        name: name of the metric in reports.
        kind: the program's word for this kind of grade, such as `contains`.
        passed: the program's verdict; None if it gave only a score, or if the grade could not be computed.
        score: the program's score; None if it gave none, or if it is not from 0 to 1.
        reason: the program's explanation.
        error: why the grade could not be computed; empty if it was computed.
        asserts: whether the grade can fail its case.
        threshold: least passing score; None if the verdict is the program's own.
        settings: everything of the program's configuration that decides the grade, such as the expected text, a weight
            or a threshold.
        source: position of the check in the program's file; None if it is unknown.
    """

    name: str
    kind: str
    passed: bool | None = None
    score: float | None = None
    reason: str = ""
    error: str = ""
    asserts: bool = True
    threshold: float | None = None
    settings: Mapping[str, Any] = {}
    source: SourceMark | None = None


class StoredTrial(Struct, frozen=True):
    """One answer to a case, with its grades. None stands for unknown.

    Attributes:
        answer: the answer; None if there is none, or if the format does not have it.
        checks: the grades.
        error: why the agent gave no answer; empty if it gave one.
        calls: the tool calls.
        usage: tokens and cost.
        started: time in ISO 8601; empty if it is unknown.
        duration_ms: milliseconds that the answer took.
        model: name of the model.
        finish_reason: why the answer ended.
        metadata: what is shown and decides nothing, such as the program's own verdict.
        cached: whether the answer is that of an earlier run.
    """

    answer: str | None = None
    checks: tuple[StoredCheck, ...] = ()
    error: str = ""
    calls: tuple[ToolInvocation, ...] | None = None
    usage: Usage | None = None
    started: str = ""
    duration_ms: float | None = None
    model: str | None = None
    finish_reason: str | None = None
    metadata: Mapping[str, Any] = {}
    cached: bool = False

    @property
    def error_line(self) -> str:
        """The error without the stack trace that follows it."""
        return one_line(self.error.strip().partition("\n")[0], 1000)


class Definition(Struct, frozen=True):
    """Where a case may be defined in a repository.

    Attributes:
        files: patterns of files, relative to the current folder.
        function: the Python function that defines the case; empty if none does.
        test: the test of promptfoo's configuration, or the name of Vally's stimulus; None if the case is a whole file.
    """

    files: tuple[str, ...]
    function: str = ""
    test: Mapping[str, Any] | None = None


class StoredCase(Struct, frozen=True):
    """One case with its trials.

    Attributes:
        name: name in reports; None if the case has none.
        question: what was asked; the text says so if the format does not have it.
        asked: everything that identifies the question, as JSON values; cases are paired by it and by name.
        source: position in the file that defines the case, or in the results.
        trials: the trials, in order.
        repeat: how many trials there should be.
        expected: the expected answer; None if there is none or it is unknown.
        tags: tags of the case.
        id: id that the format gives; None to make one of the name.
        inputs: further texts that a suite may have as the input of this case, besides the question.
        definition: where the case may be defined; None if the format does not have it.
    """

    name: str | None
    question: str
    asked: Any
    source: SourceMark
    trials: tuple[StoredTrial, ...]
    repeat: int
    expected: str | None = None
    tags: tuple[str, ...] = ()
    id: str | None = None
    inputs: tuple[str, ...] = ()
    definition: Definition | None = None

    @property
    def content_hash(self) -> str:
        """SHA-256, in hexadecimal, of what was asked."""
        return hashlib.sha256(canonical_json(self.asked)).hexdigest()


class StoredResults(Struct, frozen=True):
    """The content of a results file of another program.

    Attributes:
        program: the program with its version, such as `promptfoo 0.123.1`.
        suite: the program's name of the suite.
        target: description of what was evaluated, such as the provider.
        cases: the cases.
        written: when the run ended or the file was written, in ISO 8601; empty if the file does not have it.
        commit: the commit that was evaluated; None if the file does not have it.
        planned: the number of cases that the suite has by what the file says of it; None if the file does not say it.
        terms_known: whether the file has everything that decides the grades.
        stopped: why the run ended early; empty if it finished.
        notices: notices for the reader, one sentence each.
        evenly: whether the program runs each case equally often, so that a case with fewer trials lacks some.
    """

    program: str
    suite: str
    target: str
    cases: Sequence[StoredCase]
    written: str = ""
    commit: str | None = None
    planned: int | None = None
    terms_known: bool = False
    stopped: str = ""
    notices: tuple[str, ...] = ()
    evenly: bool = False


def joined_cases(files: Sequence[StoredResults]) -> list[StoredCase]:
    """Return the cases of all files; equal cases of several files are one case with more trials."""
    found: dict[tuple[str | None, str | None, str], StoredCase] = {}
    for case in (case for file in files for case in file.cases):
        key = case.id, case.name, case.content_hash
        before = found.get(key)
        found[key] = (
            case
            if before is None
            else replace(before, trials=(*before.trials, *case.trials), repeat=before.repeat + case.repeat)
        )
    cases = list(found.values())
    most = max((case.repeat for case in cases), default=1)
    return [replace(case, repeat=most) for case in cases] if any(file.evenly for file in files) else cases


class FormatError(Exception):
    """A file cannot be used; the message is a clause to write after the file's name."""


def scored_check(
    name: str, kind: str, score: float, reason: str, marks: Mapping[str, float], settings: Mapping[str, Any] = {}
) -> StoredCheck:
    """Return a check that has a score and no verdict: it passes from its mark on, and without one decides nothing.

    Args:
        name: name of the metric.
        kind: see `StoredCheck`.
        score: the score.
        reason: see `StoredCheck`.
        marks: least passing score of a metric, by its name; under the empty name, of all others.
        settings: see `StoredCheck`.
    """
    mark = marks.get(name, marks.get(""))
    passed = None if mark is None else score >= mark
    given = settings if mark is None else {**settings, "pass_at": mark}
    return StoredCheck(name, kind, passed, unit_score(score), reason, asserts=mark is not None, settings=given)


def unit_score(value: float | None) -> float | None:
    """Return a score from 0 to 1, or None for any other number."""
    return value if value is not None and 0.0 <= value <= 1.0 else None
