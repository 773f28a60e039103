"""Every format: what its files have, and files that nobody should trust."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.extensions.results.evidence import read_evidence
from holodeck_action.extensions.results.stored import StoredResults, StoredTrial, joined_cases
from holodeck_action.text.given_paths import GivenPath
from tests.extensions.results.conftest import DATA, Shelf

SAMPLES = {
    "promptfoo JSON": "promptfoo/every.json",
    "promptfoo JSONL": "promptfoo/every.jsonl",
    "Inspect": "inspect/sums.eval",
    "claude plugin eval": "plugin-eval/aggregate-result.json",
    "DeepEval": "deepeval/every.json",
    "Harbor": "harbor/*/result.json",
    "ATIF": "harbor/hello__1/agent/trajectory.json",
    "Vally": "vally/results.jsonl",
    "JUnit XML": "junit/pytest.xml",
}
"""Files of each format, written by the program itself. The models of its package made those of Harbor and ATIF; that of
Vally is written by hand (`SOURCE.txt`)."""
PAGE = Path(__file__).parents[3] / "docs" / "results-of-others.md"
BEGIN, END = "<!-- begin table -->\n", "<!-- end table -->"


def _trials(results: StoredResults) -> Iterator[StoredTrial]:
    return (trial for case in results.cases for trial in case.trials)


def _of_trials(has: Callable[[StoredTrial], object]) -> Callable[[StoredResults], bool]:
    return lambda results: any(bool(has(trial)) for trial in _trials(results))


FACTS: dict[str, Callable[[StoredResults], bool]] = {
    "cases of the suite": lambda results: results.planned is not None,
    "trials": lambda results: any(len(case.trials) > 1 for case in results.cases),
    "answer": _of_trials(lambda trial: trial.answer),
    "tool calls": _of_trials(lambda trial: trial.calls is not None),
    "tokens": _of_trials(lambda trial: trial.usage is not None and trial.usage.prompt_tokens is not None),
    "cost": _of_trials(lambda trial: trial.usage is not None and trial.usage.cost_usd is not None),
    "time": _of_trials(lambda trial: trial.duration_ms is not None),
    "error of the agent": _of_trials(lambda trial: trial.error),
    "verdict of a check": _of_trials(lambda trial: any(check.passed is not None for check in trial.checks)),
    "score of a check": _of_trials(lambda trial: any(check.score is not None for check in trial.checks)),
    "error of a check": _of_trials(lambda trial: any(check.error for check in trial.checks)),
    "what checks expect": lambda results: results.terms_known,
    "commit": lambda results: results.commit is not None,
    "when it ran": lambda results: bool(results.written),
}


def table() -> str:
    """What each format has, as the page shows it."""
    options = {"pass_at": ["0.5"], "accept_stored": True}
    read = {name: read_evidence([GivenPath(Path(file), DATA)], options, DATA, {}) for name, file in SAMPLES.items()}
    found = {name: replace(each.files[0], cases=joined_cases(each.files)) for name, each in read.items()}
    rows = [f"| | {' | '.join(SAMPLES)} |", f"|---|{'---|' * len(SAMPLES)}"]
    for fact, has in FACTS.items():
        cells = ["yes" if has(results) else "–" for results in found.values()]
        rows.append(f"| {fact} | {' | '.join(cells)} |")
    return "".join(f"{row}\n" for row in rows)


def test_the_page_says_what_each_format_has() -> None:
    assert PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0] == table()


HOSTILE = (b"", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe\x00", b"null", b"[]", b"{}\n{}\n")


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_damaged_files_are_refused_and_never_pass(shelf: Shelf, sample: str) -> None:
    content = next(DATA.glob(sample)).read_bytes()
    cut = [content[: len(content) * part // 8] for part in range(1, 8, 3)]
    for number, damaged in enumerate((*HOSTILE, *cut, content.replace(b'"', b"'"), content + b"{")):
        shelf.project.write("damaged", damaged)
        ended = shelf.gate("damaged", "--min-completeness", "0")
        assert (number, ended.code != 0, "Traceback" in ended.stderr) == (number, True, False)


OUTCOMES = {
    # All runs of its aggregate count: an error of the provider and a timeout have a score of 0 there.
    "plugin-eval/aggregate-result.json": {"evals/err": "error", "evals/hang": "error", "evals/second": "skipped"},
    # For DeepEval the metric that raised an error failed.
    "deepeval/run.json": {"hi": "passed", "hola": "failed", "boom": "error"},
    # A threshold lets one trial of "explains" pass there; the score of an error is 0.
    "vally/results.jsonl": {
        "test-writer: writes tests": "passed",
        "test-writer: explains": "failed",
        "test-writer: judged": "error",
        "test-writer: hangs": "error",
    },
    # Repetitions have other names in the file; what is flaky is shown, and a conversation is one case.
    "deepeval/every.json": {
        "test_answers": "passed",
        "shown only": "passed",
        "flaky": "informational",
        "test_judge_is_down": "error",
        "test_talks": "passed",
        "no last answer": "failed",
    },
    "junit/pytest.xml": {
        "test_agent: test_greeting[hi-ok hi]": "passed",
        "test_agent: test_greeting[hola-hola]": "failed",
        "test_agent: test_greeting[boom-ok boom]": "error",
    },
}


@pytest.mark.parametrize("sample", OUTCOMES)
def test_errors_are_no_failures_and_the_number_of_cases_is_needed(shelf: Shelf, sample: str) -> None:
    file = shelf.take(sample)
    number = len(OUTCOMES[sample])
    for cases, missing in ((number, {}), (number + 1, {"missing cases": "error"})):
        assert shelf.gate(file, "--cases", f"{cases}").code == (3 if "plugin" in sample else 1)
        assert shelf.outcomes() == {**OUTCOMES[sample], **missing}
    assert "how many cases there should be is unknown" in shelf.gate(file).stdout


DOCTYPE = '<!DOCTYPE a [<!ENTITY b "c">]>'
XML = {
    f"{DOCTYPE}<testsuite name='&b;'/>": "has a document type, which is not read",
    "<html></html>": "is XML with the root 'html', not a JUnit report",
    f"<testsuite>{'<a>' * 200}": "is nested too deeply",
    "<testsuite tests='2'><testcase name='a'/></testsuite>": "its suites count 2 tests, and it holds 1",
    "<testsuite><testcase": "cannot be read",
}


def test_a_report_without_entities_and_with_all_tests_is_read(shelf: Shelf) -> None:
    for text, sentence in XML.items():
        shelf.project.write("report.xml", text)
        ended = shelf.gate("report.xml", "--cases", "1")
        assert (ended.code, sentence in ended.stderr) == (2, True), ended.stderr
    shelf.project.write("report.xml", "<testsuites><testsuite tests='1'><testcase name='a'/></testsuite></testsuites>")
    assert shelf.gate("report.xml", "--cases", "1").code == 0
    skipped = "<testsuite><testcase name='a'><skipped/></testcase><testcase name='b'/></testsuite>"
    shelf.project.write("report.xml", skipped)
    assert shelf.gate("report.xml", "--cases", "2").code == 0
    assert shelf.outcomes() == {"a": "informational", "b": "passed"}


def test_what_failed_besides_the_metrics_of_deepeval_and_scores_without_verdict_decide(shelf: Shelf) -> None:
    document = json.loads((DATA / "deepeval" / "every.json").read_text(encoding="utf-8"))
    for case in document["testCases"][:2]:
        case |= {"success": False, "expectationsData": {"success": False, "score": 0.0, "reason": "not polite"}}
    document["testCases"][2]["success"] = False
    document["testCases"].append({"name": "ungraded", "input": "?", "success": False, "metricsData": []})
    shelf.project.write("run.json", json.dumps(document))
    shelf.gate("run.json", "--cases", "7")
    found = shelf.outcomes()
    wanted = {"test_answers": "failed", "shown only": "failed", "ungraded": "error"}
    assert {name: found[name] for name in wanted} == wanted
    # Without the second repetition of a test, its case is undecided.
    document["testCases"].pop(1)
    document["testCases"][0] |= {"success": True, "expectationsData": None}
    shelf.project.write("run.json", json.dumps({**document, "testPassed": None}))
    shelf.gate("run.json", "--cases", "6")
    assert shelf.outcomes()["test_answers"] == "skipped"
    shelf.gate(shelf.take("deepeval/every.json"), "--cases", "6", "--pass-at", "length=0.8")
    assert shelf.outcomes()["test_answers"] == "failed"


@pytest.mark.proves("gate: --without-plugin")
def test_the_arm_without_the_plugin_is_a_base_of_the_other(shelf: Shelf) -> None:
    def changed(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        runs = [{**run, "startedAt": "2026-11-28T17:28:06.946Z"} for run in 3 * cases[2]["arms"]["with"]]
        worse = [{**run, "passed": False, "graders": [{**g, "passed": False} for g in run["graders"]]} for run in runs]
        return [{**cases[2], "arms": {"with": worse, "without": 3 * cases[2]["arms"]["without"]}}]

    file = shelf.change("plugin-eval/aggregate-result.json", cases=changed)
    assert shelf.project.run("gate", file, "--cases", "1", "--without-plugin", "-o", "without").code == 0
    ended = shelf.gate(file, "--cases", "1", "--baseline", "file:without", "--min-pass-rate", "0")
    assert (ended.code, "without the plugin, 3 of 3 runs passed" in ended.stdout) == (1, True)
    report = json.loads(shelf.project.run("report", "out", "--format", "json").stdout)
    assert [case["id"] for case in report["comparison"]["regressed"]] == ["evals-second"]
    promptfoo = shelf.gate(shelf.take("promptfoo/good.json"), "--without-plugin")
    assert (promptfoo.code, "is not of claude plugin eval" in promptfoo.stderr) == (2, True)

    def bare(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        run = {**cases[2]["arms"]["with"][0], "aborted": {"reason": "budget"}}
        return [{**cases[2], "runsPerCase": 1, "arms": {"with": [run]}}]

    file = shelf.change("plugin-eval/aggregate-result.json", cases=bare)
    assert "has no runs without the plugin" in shelf.gate(file, "--without-plugin").stderr
    assert shelf.gate(file, "--cases", "1", "--min-completeness", "0").code != 0
    assert shelf.outcomes() == {"evals/second": "error"}
