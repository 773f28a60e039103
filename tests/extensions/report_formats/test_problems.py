"""SARIF and GitLab's code quality report: valid, harmless and small whatever the texts hold, and true."""

from __future__ import annotations

import gzip
import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from holodeck_action.extensions.report_formats.code_quality import code_quality
from holodeck_action.extensions.report_formats.sarif import sarif
from holodeck_action.record.record import Provenance, Record, SuiteIdentity
from holodeck_action.reports.conclusion import conclude
from holodeck_action.text.given_paths import GivenPath
from tests.action.runner import read_log
from tests.commands.project import Project
from tests.record.records import case, record
from tests.reports.hostile import hostile_case, storable_texts
from tests.reports.shown import varied

RESULTS = GivenPath(Path("results.json"), Path("/"))
SEVERITIES = {"info", "minor", "major", "critical", "blocker"}


@cache
def validator() -> jsonschema.Draft4Validator:
    return jsonschema.Draft4Validator(json.loads(Path(__file__).with_name("sarif-schema-2.1.0.json").read_bytes()))


def documents(made: Record, folder: str = "") -> tuple[bytes, dict[str, Any], list[dict[str, Any]]]:
    """A record as bytes of SARIF, its only run, and as a code quality report; both are checked."""
    concluded = conclude(made, folder=folder)
    written = b"".join(sarif(concluded, RESULTS))
    log = json.loads(written)
    validator().validate(log)
    (run,) = log["runs"]
    issues = json.loads(b"".join(code_quality(concluded, RESULTS)))
    for issue in issues:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in SEVERITIES
    return written, run, issues


def rules(run: dict[str, Any]) -> list[tuple[str, str]]:
    return [(result["ruleId"], result["level"]) for result in run["results"]]


@given(storable_texts)
@settings(max_examples=30)
def test_any_text_gives_valid_documents_that_command_nothing(text: str) -> None:
    made = record(
        hostile_case(text),
        case("E", name=text),
        suite=SuiteIdentity(text, text, text),
        provenance=Provenance(text, text, text, folder=text),
    )
    written, run, _ = documents(made, text)
    assert read_log(written).commands == ()
    assert read_log(b"".join(code_quality(conclude(made), RESULTS))).commands == ()
    texts = [result["message"]["text"] for result in run["results"]]
    # Neither a link nor a placeholder of a message (SARIF 2.1.0, 3.11.5 and 3.11.6).
    assert not any(re.search(r"\]\(|\{\d", found) for found in texts)
    assert all(found.isprintable() for found in "".join(texts).split("\n"))


def test_each_problem_has_its_rule_and_severity() -> None:
    _, run, issues = documents(varied(), "suites/one")
    # Of two turns both fail; the flaky case and the informational one do not.
    assert rules(run) == [
        ("gate/min_pass_rate", "error"),
        ("gate/max_errors", "error"),
        ("metric/bleu", "error"),
        ("metric/bleu", "error"),
        ("metric/bleu", "note"),
        ("in-error", "warning"),
        ("not-run", "warning"),
    ]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {rule for rule, _ in rules(run)}
    assert [issue["check_name"] for issue in issues] == [rule for rule, _ in rules(run)]
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]
    assert [f"{issue['fingerprint']}:1" for issue in issues] == prints
    assert len(set(prints)) == len(prints)
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (True, 1)


def test_a_run_that_is_not_finished_says_so() -> None:
    _, run, _ = documents(record(case("E"), case("P", name="other")))
    (invocation,) = run["invocations"]
    assert not invocation["executionSuccessful"]
    assert invocation["toolExecutionNotifications"][0]["message"]["text"].startswith("INCOMPLETE: ")


@pytest.mark.full
def test_documents_stay_below_the_limits_of_code_scanning() -> None:
    letters = random.Random(5)
    noise = ["".join(chr(letters.randrange(0x4E00, 0x9FFF)) for _ in range(900)) for _ in range(5200)]
    for texts, results in ((noise, None), (["short"] * 5200, 5000)):
        written, run, issues = documents(record(*(hostile_case(text, name=f"{n}") for n, text in enumerate(texts))))
        assert len(gzip.compress(written)) < 10_000_000
        assert len(run["results"]) <= 5000
        assert len(issues) <= 5000
        if results is not None:
            assert len(run["results"]) == results
        (note,) = run["invocations"][0]["toolExecutionNotifications"]
        assert re.fullmatch(r"[\d,]+ problems are omitted; .*results.json has all", note["message"]["text"])


@pytest.mark.proves("run: --codequality --sarif")
def test_a_run_writes_both_and_export_the_same(project: Project) -> None:
    project.numbered(3, frozenset({1}))
    project.run("run", "-o", "base")
    project.numbered(3, frozenset({1, 2}))
    ended = project.run("run", "-o", "out", "--sarif", "--codequality", "--baseline", "file:base")
    assert ended.code == 1
    for name in ("sarif", "codequality"):
        written = (project.out / f"report.{name}{'.json' if name == 'codequality' else ''}").read_bytes()
        exported = project.run("export", "out", "--format", name)
        assert (exported.code, exported.stdout.encode()) == (0, written)
    (run,) = json.loads((project.out / "report.sarif").read_bytes())["runs"]
    failing = [result for result in run["results"] if result["ruleId"] == "metric/equality"]
    assert [result["properties"]["regressed"] for result in failing] == [False, True]
    assert "It passed on the base." in failing[1]["message"]["text"]
    lines = (project.folder / "agent.yaml").read_text().splitlines()
    for number, result in zip((1, 2), failing, strict=True):
        (place,) = result["locations"]
        where = place["physicalLocation"]
        assert where["artifactLocation"]["uri"] == "agent.yaml"
        found = where["region"]["startLine"]
        # The line where the case begins; its name follows.
        assert f'"case {number}"' in "".join(lines[found - 1 : found + 1])
    # A line above the cases moves them, and changes no fingerprint.
    project.write("agent.yaml", "\n" + (project.folder / "agent.yaml").read_text())
    project.run("run", "-o", "moved", "--sarif")
    (moved,) = json.loads((project.folder / "moved/report.sarif").read_bytes())["runs"]
    again = [result for result in moved["results"] if result["ruleId"] == "metric/equality"]
    assert [result["partialFingerprints"] for result in again] == [result["partialFingerprints"] for result in failing]
    shown = project.run("run", "-o", "out", "--sarif", "--min-pass-rate", "0.1")
    (tolerated,) = json.loads((project.out / "report.sarif").read_bytes())["runs"]
    assert shown.code == 0
    assert rules(tolerated) == [("metric/equality", "warning")] * 2
    # What another run wrote is no report of this one.
    project.run("run", "-o", "out")
    assert not (project.out / "report.sarif").exists()
