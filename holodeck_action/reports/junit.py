"""JUnit XML in the form of the Jenkins schema (junit-10.xsd of Jenkins' xUnit plugin).

That schema gives a testcase no file and no line: the suite's file is an attribute of the testsuite, and a case's
position is the first line of its failure, error or skip. What XML 1.0 allows nowhere, not even as a character reference
(its production 2, `Char`), is among the hidden characters that are omitted everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from holodeck_action.reports.phrases import VERDICTS, call_text, place
from holodeck_action.results.report_views import CaseView, Report, TurnView, in_suite_order
from holodeck_action.text.plain import lines_of, one_line

_TEXT_LIMIT = 2000


def junit(report: Report) -> str:
    """Render a report as one testsuite with a testcase per case.

    Failed cases are failures, cases in error errors; cases that were not run, are quarantined or assert nothing are
    skipped.
    """
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    cases = list(in_suite_order(report))
    numbers = {
        "tests": str(len(cases)),
        "failures": str(report.counts.failed),
        "errors": str(report.counts.error),
    }
    if report.run is not None:
        numbers["time"] = _seconds(report.run.duration_ms)
    skipped = len(cases) - report.counts.passed - report.counts.failed - report.counts.error
    own = {"skipped": str(skipped), "file": _file(report)}
    if report.run is not None:
        own["timestamp"] = report.run.started_at
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites{_attributes({'name': 'holodeck-action', **numbers})}>"
    yield f"<testsuite{_attributes({'name': report.suite, **numbers, **own})}>"
    yield "<properties>"
    for name, value in _properties(report):
        yield f"<property{_attributes({'name': name, 'value': value})}/>"
    yield "</properties>"
    for case in cases:
        yield from _case(case, report)
    yield "</testsuite>"
    yield "</testsuites>"


def _file(report: Report) -> str:
    return f"{report.folder}/{report.file}" if report.folder else report.file


def _properties(report: Report) -> Iterator[tuple[str, str]]:
    yield "verdict", VERDICTS[report.outcome]
    yield "reason", report.reason
    yield "exit-code", str(report.exit_code)
    yield "target", report.target
    yield "tool-version", report.provenance.tool_version
    if report.provenance.commit is not None:
        yield "commit", report.provenance.commit
    for gate in report.gates:
        yield f"gate.{gate.name}", f"{gate.state}: {gate.reason}"


def _case(case: CaseView, report: Report) -> Iterator[str]:
    about = {"name": case.title, "classname": report.suite}
    if case.duration_ms is not None:
        about["time"] = _seconds(case.duration_ms)
    where = place(case.source, report.folder)
    if case.outcome == "passed":
        yield f"<testcase{_attributes(about)}/>"
        return
    element = {"failed": "failure", "error": "error"}.get(case.outcome, "skipped")
    attributes = {"type": case.outcome, "message": case.reason}
    yield f"<testcase{_attributes(about)}>"
    yield f"<{element}{_attributes(attributes)}>{_text(where)}"
    for turn in case.turns:
        yield from (_text(problem) for problem in turn.problems)
    yield f"</{element}>"
    if case.turns:
        yield "<system-out>"
        for turn in case.turns:
            yield from _turn(turn, numbered=len(case.turns) > 1)
        yield "</system-out>"
    yield "</testcase>"


def _turn(turn: TurnView, *, numbered: bool) -> Iterator[str]:
    if numbered:
        yield f"turn {turn.index}"
    yield f"input: {_text(turn.input)}"
    if turn.response is not None:
        yield f"answer: {_text(turn.response)}"
    if turn.ground_truth is not None:
        yield f"expected: {_text(turn.ground_truth)}"
    for call in turn.tool_calls[:20]:
        yield f"tool: {_text(call_text(call))}"


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3f}"


def _attributes(values: dict[str, str]) -> str:
    return "".join(f" {name}={quoteattr(one_line(value, 1000))}" for name, value in values.items())


def _text(text: str) -> str:
    return escape(lines_of(text, _TEXT_LIMIT))
