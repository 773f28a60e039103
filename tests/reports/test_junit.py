"""JUnit XML: valid against Jenkins' schema whatever the texts hold, and true."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from lxml import etree
from msgspec.structs import replace

from holodeck_action.record.record import Provenance, SuiteIdentity, Timing
from holodeck_action.reports.formats import junit
from holodeck_action.reports.report_views import canonical_report
from tests.action.runner import read_log
from tests.record.records import case, record
from tests.reports.hostile import hostile_case, storable_texts
from tests.reports.shown import report_of, varied


@cache
def schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(Path(__file__).with_name("jenkins-junit.xsd")))


def parsed(text: str) -> etree._Element:
    root = etree.fromstring(text.encode())
    schema().assertValid(root)
    return root


@given(storable_texts)
@settings(max_examples=40)
def test_any_text_gives_a_valid_document(text: str) -> None:
    made = record(
        hostile_case(text),
        case("E", name=text),
        case("P", name=text),
        suite=SuiteIdentity(text, text, text),
        provenance=Provenance(text, text, text),
    )
    shown = "".join(junit(report_of(made, text)))
    root = parsed(shown)
    assert [len(root.findall(f".//{name}")) for name in ("testcase", "failure", "error", "skipped")] == [3, 1, 1, 0]
    assert read_log(shown.encode()).commands == ()


def test_characters_that_xml_forbids_are_left_out() -> None:
    root = parsed("".join(junit(report_of(record(case("F", name="a\x00b\ufffe\x1bc"))))))
    assert root.find(".//testcase").get("name") == "abc"


def test_a_case_is_a_testcase_an_error_an_error_and_a_skip_a_skip() -> None:
    root = parsed("".join(junit(report_of(varied(), "suites/one"))))
    (suite,) = root
    found = {
        item.get("name"): [child.tag for child in item if child.tag != "system-out"] for item in suite.iter("testcase")
    }
    assert found == {
        "passes": [],
        "fails": ["failure"],
        "crashes": ["error"],
        "was not run": ["skipped"],
        "is quarantined": ["skipped"],
        "only informs": ["skipped"],
        "flaky": [],
        "two turns": ["failure"],
    }
    assert list(found) == [
        "passes",
        "fails",
        "crashes",
        "was not run",
        "is quarantined",
        "only informs",
        "flaky",
        "two turns",
    ]
    for element in (root, suite):
        assert (element.get("tests"), element.get("failures"), element.get("errors")) == ("8", "2", "1")
    assert suite.get("skipped") == "3"
    assert suite.get("file") == "suites/one/agent.yaml"
    quarantined = suite.findall("testcase")[4].find("skipped")
    assert quarantined.get("type") == "quarantined"
    assert quarantined.get("message").startswith("quarantined until 2027-01-01: known")


def test_a_failure_says_where_and_why_and_what_was_said() -> None:
    root = parsed("".join(junit(report_of(varied(), "suites/one"))))
    two = root.findall(".//testcase")[7]
    failure = two.find("failure").text.split("\n")
    assert failure[0] == "suites/one/agent.yaml:3:5"
    assert failure[1] == "bleu 0.10, needs 0.50: compared"
    output = two.find("system-out").text
    for part in ("turn 0", "input: question", "answer: answer", 'tool: search(q="x")', "turn 1", "expected: expected"):
        assert part in output


def test_times_are_the_records_own() -> None:
    made = varied()
    (trial,) = made.cases[0].trials
    turns = tuple(replace(turn, timing=Timing("", 1000.4)) for turn in trial.turns)
    first = replace(made.cases[0], trials=(replace(trial, turns=turns, timing=Timing("", 1234.5)),))
    report = report_of(replace(made, cases=(first, *made.cases[1:])))
    root = parsed("".join(junit(report)))
    assert root.find(".//testcase").get("time") == "1.000"
    assert (root.get("time"), root[0].get("time")) == ("1.000", "1.000")
    bare = parsed("".join(junit(canonical_report(report))))
    assert [element for element in bare.iter() if "time" in element.attrib or "timestamp" in element.attrib] == []


def test_gates_and_verdict_are_properties() -> None:
    root = parsed("".join(junit(report_of(varied()))))
    properties = {item.get("name"): item.get("value") for item in root.iter("property")}
    assert properties["verdict"] == "FAILED"
    assert properties["exit-code"] == "1"
    assert properties["gate.max_errors"] == "failed: 1 case in error; none is allowed"


@pytest.mark.parametrize(
    "document",
    [
        "<testsuites><testsuite/></testsuites>",
        '<testsuites><testsuite name="a" tests="0" failures="0" errors="0"><testcase/></testsuite></testsuites>',
        '<testsuite name="a" tests="0" failures="0" errors="0" time="1e-3"/>',
        '<testsuite name="a" tests="0" failures="0" errors="0"><testcase name="b" file="c"/></testsuite>',
        '<testsuite name="a" tests="0" failures="0" errors="0"><failure/></testsuite>',
    ],
)
def test_the_schema_refuses_what_jenkins_refuses(document: str) -> None:
    assert not schema().validate(etree.fromstring(document))


def test_a_document_says_what_it_omits() -> None:
    root = parsed("".join(junit(report_of(record(case("F", name="a"), case("P", name="b"))))))
    (said,) = (item.get("value") for item in root.iter("property") if item.get("name") == "omitted")
    assert said.startswith("cases that passed or assert nothing: inputs, answers and scores; ")
    assert said.endswith("results.json has everything")
    texts = {item.get("name"): "".join(item.itertext()) for item in root.iter("testcase")}
    assert "question" in texts["a"]
    assert texts["b"] == ""
