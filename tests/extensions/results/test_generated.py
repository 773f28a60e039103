"""200 generated runs each of promptfoo, Inspect and DeepEval: their exit codes beside ours, with rules for differences.

`data/promptfoo/generate.mjs` wrote them with promptfoo 0.123.1. A folder of the archive is promptfoo's exit code.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from typing import Any

import pytest

from tests.extensions.results.conftest import DATA, Shelf

THREW = "Custom function threw error"


def _facts(document: dict[str, Any]) -> set[str]:
    """What a run has, in the words of the page."""
    found = set()
    for row in document["results"]["results"]:
        checks = (row["gradingResult"] or {}).get("componentResults") or ()
        threw = any(check["reason"].startswith(THREW) for check in checks)
        fails = any(not check["pass"] and not check["reason"].startswith(THREW) for check in checks)
        found |= {"error"} if row["failureReason"] == 2 or threw else set()
        found |= {"failure"} if row["failureReason"] == 1 and (fails or not threw) else set()
        found |= {"passed by weight"} if row["success"] and fails else set()
        found |= {"asserts"} if any(check["assertion"].get("weight") != 0 for check in checks) else set()
    return found


def _is_explained(theirs: int, ours: int, facts: set[str]) -> bool:
    if ours == 0:
        return theirs == 0 and not facts & {"error", "failure", "passed by weight"}
    if ours == 1:
        return bool(facts & {"failure", "passed by weight"})
    if ours == 3:
        return "error" in facts and not facts & {"failure", "passed by weight"}
    return ours == 2 and theirs == 0 and "asserts" not in facts


@pytest.mark.full
def test_every_difference_to_promptfoo_has_a_rule_and_no_error_is_a_pass(shelf: Shelf) -> None:
    codes: Counter[tuple[int, int]] = Counter()
    with zipfile.ZipFile(DATA / "promptfoo" / "generated.zip") as archive:
        for name in archive.namelist():
            content = archive.read(name)
            shelf.project.write("run.json", content)
            theirs, ours = int(name.partition("/")[0]), int(shelf.gate("run.json", "--no-html").code)
            codes[theirs, ours] += 1
            assert _is_explained(theirs, ours, _facts(json.loads(content))), (name, ours)
    assert codes == {(0, 0): 78, (0, 1): 2, (0, 2): 5, (0, 3): 1, (100, 1): 38, (100, 3): 76}


def _inspect_code(status: str, values: set[str | None]) -> int:
    """The exit code by the page's rules: values are those of the samples, None where one is in error or not scored."""
    if values & {"I", "P", "N"}:
        return 1
    if status != "success":
        return 4
    return 3 if None in values else 0


@pytest.mark.full
def test_every_difference_to_inspect_has_a_rule_and_no_error_is_a_pass(shelf: Shelf) -> None:
    """Inspect ends with 0 for every log with the status success, whatever its scores; `generate.py.txt` wrote them."""
    codes: Counter[tuple[str, int]] = Counter()
    with zipfile.ZipFile(DATA / "inspect" / "generated.zip") as archive:
        for name in archive.namelist():
            content = archive.read(name)
            shelf.project.write("run.json", content)
            log = json.loads(content)
            scored = [{} if sample.get("error") else sample["scores"] for sample in log["samples"]]
            values = [scores["letters"]["value"] if scores else None for scores in scored]
            ours = int(shelf.gate("run.json", "--no-html").code)
            codes[log["status"], ours] += 1
            assert ours == _inspect_code(log["status"], {each if isinstance(each, str) else None for each in values})
    assert codes == {("success", 0): 71, ("success", 1): 96, ("success", 3): 22, ("error", 1): 7, ("error", 4): 4}


def _deepeval_code(document: dict[str, Any], tests: int) -> int:
    """The exit code by the page's rules; `tests` is how many there are, and one that raised is not in the document."""
    cases = [*document["testCases"], *document["conversationalTestCases"]]
    graded = [(case["flaky"] or metric["flaky"], metric) for case in cases for metric in case["metricsData"]]
    scored = [(shown or "success" not in metric, metric) for shown, metric in graded if "score" in metric]
    if any(not shown and not metric["success"] for shown, metric in scored):
        return 1
    present = {case.get("input", case["name"].partition("[")[0]) for case in cases}
    if all(shown for shown, _ in graded) and len(present) == tests:
        return 2
    return 3 if len(scored) < len(graded) or len(present) < tests else 0


@pytest.mark.full
def test_every_difference_to_deepeval_has_a_rule_and_no_error_is_a_pass(shelf: Shelf) -> None:
    """`data/deepeval/generate.py.txt` wrote the runs with DeepEval 4.3.1, and the JUnit report of each."""
    codes: Counter[tuple[int, int]] = Counter()
    with zipfile.ZipFile(DATA / "deepeval" / "generated.zip") as archive:
        for name in (name for name in archive.namelist() if name.endswith(".json")):
            content, tests = archive.read(name), name.removesuffix(".json").partition("-")[2]
            shelf.project.write("run.json", content)
            theirs, ours = int(name.partition("/")[0]), int(shelf.gate("run.json", "--cases", tests, "--no-html").code)
            codes[theirs, ours] += 1
            assert (name, ours) == (name, _deepeval_code(json.loads(content), int(tests)))
            if (theirs, ours) == (1, 0):
                # An assertion of the test itself failed, which only the JUnit report has.
                shelf.project.write("junit.xml", archive.read(name.replace(".json", ".xml")))
                assert shelf.gate("run.json", "junit.xml", "--cases", f"{2 * int(tests)}").code == 1
        without = len(archive.namelist()) - 2 * codes.total()
    # Of the runs without a file no test has an assertion of DeepEval.
    assert (codes, without) == ({(0, 0): 93, (0, 2): 3, (1, 0): 2, (1, 1): 67, (1, 2): 1, (1, 3): 31}, 3)
