"""Reads JUnit XML, as pytest and many others write it. A document type, and thus an entity, is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn
from xml.parsers import expat

from msgspec import Struct

from holodeck_action.extensions.results.stored import (
    FormatError,
    StoredCase,
    StoredCheck,
    StoredResults,
    StoredTrial,
)
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.lazy_patterns import lazy_pattern

_MOST_DEPTH = 100
_MOST_TEXT = 100_000
_RAISED = lazy_pattern(r"(?!AssertionError\b|Failed\b)[A-Za-z_][\w.]*(?:Error|Exception|Exit|Timeout)\b:?")
"""The start of the message of a test of pytest that raised something else than a failed assertion."""
_OUTCOMES = ("failure", "error", "skipped")


class Test(Struct):
    """A test of a report; `outcome` is empty if it passed."""

    attributes: Mapping[str, str]
    suite: str
    outcome: str = ""
    message: str = ""
    text: str = ""


class Report(Struct):
    """The tests of a report, the number that its suites count, and when it was written."""

    tests: list[Test]
    counted: int = 0
    written: str = ""


def read_xml(content: Foreign) -> Report:
    """Return the tests of a report.

    Raises:
        ForeignError: the file is not XML in UTF-8.
        FormatError: the XML has a document type, is nested too deeply, or is not a report.
    """
    report = Report([])
    open_names: list[str] = []
    suites: list[str] = []

    def refuse(*_: Any) -> NoReturn:
        raise FormatError("has a document type, which is not read")

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(open_names) >= _MOST_DEPTH:
            raise FormatError("is nested too deeply")
        if not open_names and name not in ("testsuites", "testsuite"):
            raise FormatError(f"is XML with the root {name[:40]!r}, not a JUnit report")
        open_names.append(name)
        if name == "testsuite":
            suites.append(attributes.get("name", ""))
            report.written = max(report.written, attributes.get("timestamp", ""))
            if "testsuite" not in open_names[:-1] and attributes.get("tests", "").isdecimal():
                report.counted += int(attributes["tests"][:9])
        elif name == "testcase":
            report.tests.append(Test(attributes, suites[-1] if suites else ""))
        elif name in _OUTCOMES and report.tests:
            report.tests[-1].outcome = name
            report.tests[-1].message = attributes.get("message", "") or attributes.get("type", "")

    def end(name: str) -> None:
        open_names.pop()
        if name == "testsuite":
            suites.pop()

    def add(text: str) -> None:
        if open_names[-1] in _OUTCOMES and report.tests and len(report.tests[-1].text) < _MOST_TEXT:
            report.tests[-1].text += text

    parser = expat.ParserCreate("utf-8")
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, add
    content.parse(lambda data: parser.Parse(data, True), FormatError)
    return report


def read_report(report: Report, file: str) -> StoredResults:
    """Return the results of a report, which does not say how many tests there should be.

    Raises:
        FormatError: the report lacks tests that its suites count.
    """
    if report.counted > len(report.tests):
        raise FormatError(f"is incomplete: its suites count {report.counted} tests, and it holds {len(report.tests)}")
    groups: dict[tuple[str, str], list[tuple[int, Test]]] = {}
    for number, test in enumerate(report.tests, start=1):
        key = test.attributes.get("classname", "") or test.suite, test.attributes.get("name", "")
        groups.setdefault(key, []).append((number, test))
    cases = []
    for (group, name), tests in groups.items():
        number, first = tests[0]
        line = first.attributes.get("line", "")
        place = first.attributes.get("file", "")
        source = SourceMark(place, int(line[:9]) + 1 if line.isdecimal() else 1, 1)
        cases.append(
            StoredCase(
                name=f"{group}: {name}" if group else name,
                question=name,
                asked=[group, name],
                source=source if place else SourceMark(file, number, 0),
                trials=tuple(_trial(test) for _, test in tests),
                repeat=len(tests),
            )
        )
    return StoredResults("JUnit", "", "tests", cases, written=report.written)


def _trial(test: Test) -> StoredTrial:
    reason = test.message or test.text.strip().partition("\n")[0]
    seconds = test.attributes.get("time", "").replace(",", "")
    raised = test.outcome == "failure" and test.suite == "pytest" and _RAISED.match(reason) is not None
    broken = test.outcome == "error" or raised
    check = StoredCheck("test", "test", test.outcome == "", float(test.outcome == ""), reason)
    return StoredTrial(
        checks=() if broken or test.outcome == "skipped" else (check,),
        error=(reason or "the test ended in an error") if broken else "",
        duration_ms=1000 * float(seconds) if _is_number(seconds) else None,
    )


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal() and len(text) < 20
