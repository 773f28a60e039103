"""The problems of a run at lines of the repository, with rules and fingerprints, for programs that track problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.github.annotations import annotation_key
from holodeck_action.github.case_annotations import Finding, SuiteAnnotator, annotation_of
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.phrases import repository_path
from holodeck_action.reports.report_views import Report
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.plain import one_line

MOST_PROBLEMS = 5000
"""Maximum number of problems of a document. GitHub accepts 25,000 results of a run and shows the 5,000 most severe."""
_RULES = {
    "error": ("in-error", "A case could not be evaluated."),
    "skipped": ("not-run", "Cases were not run."),
}
_EXPECTATION = ("expectation", "An answer or its tool calls are not as the case expects.")

Level = Literal["error", "warning", "note"]


class Rule(Struct, frozen=True):
    """What a problem violates: an id, the same in every run, and a sentence."""

    id: str
    text: str


class Problem(Struct, frozen=True):
    """A problem at a line.

    Attributes:
        rule: what is violated.
        level: `error` if the verdict is not passed, else `warning`; `note` for a quarantined case.
        title: one line.
        message: further lines; may be empty.
        path: path of the file in the repository; None if it is outside.
        line: 1-based line.
        column: 1-based column; None if it is unknown.
        key: hash of suite, case, turn and rule; the same in every run.
        regressed: whether the case passed on the base.
    """

    rule: Rule
    level: Level
    title: str
    message: str
    path: str | None
    line: int
    column: int | None
    key: str
    regressed: bool = False


def problems_of(report: Report) -> Iterator[Problem]:
    """Yield the problems of a run: violated gates, then those of cases, worst first.

    Positions are relative to the repository, or to the reader's folder if the suite is in no repository.
    """
    if report.provenance.folder is None:
        report = replace(report, provenance=replace(report.provenance, folder=report.folder))
    failing: Level = "warning" if report.outcome == "passed" else "error"
    yield from _gate_problems(report, failing)
    regressed = frozenset(() if report.comparison is None else (case.id for case in report.comparison.regressed))
    for finding in SuiteAnnotator(report).findings():
        for rule, part in _split(finding):
            made = annotation_of(part, detailed=False)
            level: Level = {"failed": failing, "quarantined": "note"}.get(part.outcome, "warning")
            worse = part.outcome == "failed" and part.case.id in regressed
            yield Problem(rule, level, made.title, made.message, made.path, made.line, made.column, part.key, worse)


def _gate_problems(report: Report, level: Level) -> Iterator[Problem]:
    path = repository_path(report.provenance.folder, SourceMark(report.file, 1, 1))
    for gate in report.gates:
        if gate.state == "failed":
            rule = Rule(f"gate/{gate.name}", f"The gate {gate.name} is violated.")
            title = one_line(f"{gate.name}: {gate.reason}", 1000)
            yield Problem(rule, level, title, "", path, 1, 1, annotation_key(path or report.file, rule.id))


def _split(finding: Finding) -> Iterator[tuple[Rule, Finding]]:
    """Yield a rule and the part of a finding that violates it: one for each failed metric, and one for all others."""
    failed = [metric for metric in finding.metrics if metric.outcome == "failed"]
    for number, metric in enumerate(failed):
        name = one_line(metric.name, 100)
        key = annotation_key(finding.key, metric.name, sum(each.name == metric.name for each in failed[:number]))
        yield (
            Rule(f"metric/{name}", f"{name} is beyond its threshold."),
            replace(finding, metrics=(metric,), other_problems=(), key=key),
        )
    others = tuple(metric for metric in finding.metrics if metric.outcome != "failed")
    if others or finding.other_problems or not failed:
        yield Rule(*_RULES.get(finding.outcome, _EXPECTATION)), replace(finding, metrics=others)


def encode(value: object) -> bytes:
    """Return a value as JSON; `##[` is escaped, since GitHub's runner would read it as a command in logs."""
    return to_json(value).replace(b"##[", rb"\u0023\u0023[")


class Kept(Struct, frozen=True):
    """The problems that a document has room for, the JSON of each, and the number of those omitted."""

    problems: Sequence[Problem]
    encoded: Sequence[bytes]
    omitted: int


def keep_problems(report: Report, entry: Callable[[Problem], Mapping[str, Any]], most_bytes: int) -> Kept:
    """Return the first problems of a run: at most `MOST_PROBLEMS`, whose entries have at most `most_bytes` together."""
    problems: list[Problem] = []
    encoded: list[bytes] = []
    omitted = size = 0
    for problem in problems_of(report):
        part = encode(entry(problem))
        size += len(part)
        if omitted or size > most_bytes or len(encoded) == MOST_PROBLEMS:
            omitted += 1
        else:
            problems.append(problem)
            encoded.append(part)
    return Kept(problems, encoded, omitted)


def array_items(encoded: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the items of a JSON array, each on its line."""
    yield from (b",\n" + part if number else b"\n" + part for number, part in enumerate(encoded))
