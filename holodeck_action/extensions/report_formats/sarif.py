"""SARIF 2.1.0 (OASIS), with what GitHub's code scanning reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.report_formats.problems import Problem, Rule, array_items, encode, keep_problems
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.headline import verdict_line
from holodeck_action.reports.phrases import repository_path
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_HOME = "https://github.com/holodeck-action/holodeck-action"
_MOST_BYTES = 7_000_000
"""Maximum bytes of the results. GitHub accepts 10 MB of compressed SARIF; the rules need the rest."""
# In a message `](` begins the address of a link, and `{0` a placeholder.
_ACTIVE = lazy_pattern(r"\](?=\()|\{(?=\d)")


def sarif(concluded: Conclusion, results: GivenPath) -> Iterator[bytes]:
    """Yield a run as SARIF: a rule for each metric and gate, and a result for each problem of a case or gate.

    Args:
        concluded: the run.
        results: the path of its record, for the message about omitted problems.
    """
    report = concluded.report
    kept = keep_problems(report, _result, _MOST_BYTES)
    rules = {problem.rule.id: problem.rule for problem in kept.problems}
    path = repository_path(report.provenance.folder or "", SourceMark(report.file, 1, 1)) or report.file
    finished = report.exit_code in (ExitCode.PASSED, ExitCode.VIOLATED)
    notifications = [] if finished else [_notification(verdict_line(report), "error")]
    if kept.omitted:
        notifications.append(_notification(f"{kept.omitted:,} problems are omitted; {results} has all", "warning"))
    run = {
        "tool": {
            "driver": {
                "name": "holodeck-action",
                "informationUri": _HOME,
                "version": report.provenance.tool_version,
                "rules": [_rule(rule) for rule in rules.values()],
            }
        },
        # GitHub replaces alerts of the same category, which ends at the last slash.
        "automationDetails": {"id": f"holodeck-action/{quote(path)}/"},
        "invocations": [
            {
                "executionSuccessful": finished,
                "exitCode": report.exit_code,
                "exitCodeDescription": one_line(report.reason, 1000),
                "toolExecutionNotifications": notifications,
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [],
    }
    yield encode({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}).removesuffix(b"]}]}")
    yield from array_items(kept.encoded)
    yield b"]}]}\n"


def _result(problem: Problem) -> dict[str, Any]:
    lines = [problem.title, problem.message, "It passed on the base." if problem.regressed else ""]
    made: dict[str, Any] = {
        "ruleId": problem.rule.id,
        "level": problem.level,
        "message": {"text": _plain("\n".join(filter(None, lines)))},
        # Without it GitHub takes the text of the line, which changes with the case.
        "partialFingerprints": {"primaryLocationLineHash": f"{problem.key}:1"},
        "properties": {"regressed": problem.regressed},
    }
    if problem.path is not None:
        region = {"startLine": problem.line}
        if problem.column is not None:
            region["startColumn"] = problem.column
        where = {"artifactLocation": {"uri": quote(problem.path), "uriBaseId": "%SRCROOT%"}, "region": region}
        made["locations"] = [{"physicalLocation": where}]
    return made


def _rule(rule: Rule) -> dict[str, Any]:
    text = {"text": _plain(rule.text)}
    return {"id": rule.id, "shortDescription": text, "fullDescription": text, "help": text}


def _notification(text: str, level: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": _plain(text)}}


def _plain(text: str) -> str:
    return _ACTIVE.sub(r"\g<0> ", text)
