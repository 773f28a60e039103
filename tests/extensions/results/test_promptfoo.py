"""Results that promptfoo wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.facts import Known
from holodeck_action.record.record import Usage
from holodeck_action.record.result_files import read_record
from tests.extensions.results.conftest import Shelf
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub
from tests.github.life import FILES
from tests.github.workflow import REPOSITORY, Workflow

EVERY = {
    "good": "passed",
    "fails": "failed",
    "grader throws": "error",
    "provider throws": "error",
    "provider refuses": "error",
    "no assertion": "informational",
    "passes by weight": "failed",
    "shown only": "passed",
}
"""What each test of every.yaml is here; promptfoo counts 8 of its 16 rows as passed, those by weight among them."""


@pytest.mark.parametrize("file", ["every.json", "every.jsonl"])
def test_repeats_are_trials_and_what_threw_is_an_error(shelf: Shelf, file: str) -> None:
    ended = shelf.gate(shelf.take(f"promptfoo/{file}"), "--cases", "8")
    assert (ended.code, ended.stderr) == (1, "")
    assert shelf.outcomes() == EVERY
    record = read_record(shelf.project.folder / "out")
    cases = {case.name: case for case in record.cases}
    assert {len(case.trials) for case in record.cases} == {2}
    good, broken = cases["good"].trials[0].turns[0], cases["provider throws"].trials[0].turns[0]
    assert (good.response, good.usage, good.tool_invocations) == ("ok hi", Usage(10, 5, 0.01), None)
    assert isinstance(good.took_ms, Known)
    assert broken.error is not None
    assert (broken.response, broken.error.message) == (None, "Error: provider 500")
    # A weight of 0 is theirs for a grade that decides nothing.
    assert [each.criteria.asserts for each in cases["shown only"].evaluations][:2] == [True, False]
    assert record.provenance.target == "promptfoo:greeter-agent"


@pytest.mark.proves("gate: --baseline --history")
def test_everything_that_follows_takes_the_record(shelf: Shelf) -> None:
    shelf.take("promptfoo/good.json")
    assert shelf.project.run("gate", "good.json", "-o", "base").code == 0
    shelf.take("promptfoo/worse.json")
    ended = shelf.gate("worse.json", "--baseline", "file:base", "--history", "runs")
    assert ended.code == 1
    assert "greets again" in ended.stdout
    report = json.loads(shelf.project.run("report", "out", "--format", "json").stdout)
    assert [case["id"] for case in report["comparison"]["regressed"]] == ["greets-again"]
    assert "<testsuite" in (shelf.project.folder / "out" / "junit.xml").read_text(encoding="utf-8")
    assert shelf.project.run("compare", "base", "out").code == 1
    assert shelf.project.run("decide", "out").code == 1
    assert shelf.project.run("decide", "out", "--min-pass-rate", "0.5", "--on-case-regression", "warn").code == 0
    assert "0.67" in shelf.project.run("history", "show", "runs").stdout


@pytest.mark.proves("gate: --cases")
def test_without_the_number_of_cases_nothing_passes(shelf: Shelf) -> None:
    rows = shelf.take("promptfoo/good.jsonl")
    unknown = shelf.gate(rows, "--min-completeness", "0.1", "--min-pass-rate", "0.1")
    assert unknown.code == 3
    assert "how many cases there should be is unknown: give --cases N" in unknown.stdout
    assert [shelf.gate(rows, "--cases", number).code for number in ("2", "3", "4")] == [0, 0, 3]
    assert "1 of 4 cases have no result" in (shelf.project.folder / "out" / "report.md").read_text(encoding="utf-8")
    assert shelf.project.run("gate", rows, "--cases", "3", "-o", "base").code == 0
    assert shelf.gate(rows, "--baseline", "file:base").code == 0
    one = (shelf.project.folder / rows).read_text(encoding="utf-8").splitlines()[0]
    shelf.project.write("one.jsonl", one + "\n")
    assert shelf.gate("one.jsonl", "--baseline", "file:base").code == 3
    # Its document says which tests it has.
    whole = json.loads((shelf.project.folder / shelf.take("promptfoo/good.json")).read_text(encoding="utf-8"))
    whole["results"]["results"].pop()
    whole["results"]["stats"]["successes"] -= 1
    shelf.project.write("part.json", json.dumps(whole))
    assert shelf.gate("part.json").code == 3


@pytest.mark.proves("gate: --accept-stored")
def test_results_that_are_not_of_this_job_are_refused(shelf: Shelf) -> None:
    file = shelf.take("promptfoo/good.json")
    event = shelf.project.write("event.json", "{}")
    written = 1_795_960_734  # 2026-11-29T13:58:54Z, when promptfoo wrote the file
    job = {"GITHUB_EVENT_PATH": str(event)}
    for since, code in ((-60, 0), (60, 2)):
        os.utime(event, (written + since, written + since))
        assert shelf.gate(file, **job).code == code
    refused = shelf.gate(file, **job)
    assert "before this job began; run it in this job, or accept it with --accept-stored" in refused.stderr
    assert shelf.gate(file, "--accept-stored", **job).code == 0
    # Rows do not say when they were written, their file does.
    rows = shelf.take("promptfoo/good.jsonl")
    for since, code in ((0, 0), (-60, 2)):
        os.utime(shelf.project.folder / rows, (written + 60 + since, written + 60 + since))
        assert shelf.gate(rows, "--cases", "3", **job).code == code


@pytest.mark.full
def test_committed_results_are_refused(shelf: Shelf) -> None:
    from tests.github.test_merge_base import git

    file, folder = shelf.take("promptfoo/good.json"), shelf.project.folder
    git(folder, "init", "-q")
    assert shelf.gate(file).code == 0
    git(folder, "add", file)
    refused = shelf.gate(file)
    assert (refused.code, "is tracked by git" in refused.stderr) == (2, True)
    assert shelf.gate(file, "--accept-stored").code == 0


def _rows(change: dict[str, Any]) -> Any:
    def changed(results: dict[str, Any]) -> dict[str, Any]:
        results["results"][0] |= change
        return results

    return changed


def _with(**changes: Any) -> Any:
    return lambda results: {**results, **changes}


REFUSED = {
    "is of version 4 of promptfoo's format": _with(version=4),
    "row 1: has the unknown failureReason 7": _rows({"failureReason": 7}),
    "row 1: contradicts itself": _rows({"failureReason": 1}),
    "is incomplete: it counts 3 rows, and holds 0": _with(results=[]),
    "Expected `bool`, got `str`": _rows({"success": "yes"}),
    "Expected `int` >= 0": _rows({"testIdx": -1}),
}


def test_what_is_unknown_or_contradicts_itself_is_refused_by_name(shelf: Shelf) -> None:
    for sentence, change in REFUSED.items():
        ended = shelf.gate(shelf.change("promptfoo/good.json", results=change))
        assert (ended.code, sentence in ended.stderr) == (2, True), ended.stderr
        assert not (shelf.project.folder / "out" / "verdict.json").exists()


@pytest.mark.proves("run: --cases --accept-stored --pass-at --without-plugin")
def test_options_and_files_that_do_not_fit_are_refused(shelf: Shelf) -> None:
    file = shelf.take("promptfoo/good.json")
    shelf.gate(file)
    for option in (("--cases", "3"), ("--accept-stored",), ("--pass-at", "0.5"), ("--without-plugin",)):
        assert "give them to the command gate" in shelf.project.run("run", *option).stderr
        assert "is only for results of other programs" in shelf.project.run("gate", "out", *option).stderr
    assert "is only for results" in shelf.project.run("gate", "out", "--baseline", "file:out").stderr
    assert "write SCORE, or NAME=SCORE" in shelf.gate(file, "--pass-at", "many").stderr
    mixed = shelf.gate(file, "out/results.json")
    assert (mixed.code, "is of no format of the others" in mixed.stderr) == (2, True)
    assert "no gate can fail" in shelf.gate(file, "--min-pass-rate", "0").stderr


@pytest.mark.proves("gate: --html --fail-on --template --on-missing-baseline --on-changed-code")
def test_reports_and_a_missing_base_are_those_of_a_run(shelf: Shelf) -> None:
    file, out = shelf.take("promptfoo/worse.json"), shelf.project.folder / "out"
    shelf.project.write("mine.md.j2", "mine")
    assert shelf.gate(file, "--fail-on", "never", "--no-html", "--template", "mine.md.j2").code == 0
    assert sorted(path.name for path in out.iterdir()) == ["junit.xml", "report.md", "results.json", "verdict.json"]
    assert (out / "report.md").read_text(encoding="utf-8").strip() == "mine"
    missing = ("--baseline", "branch:main", "--on-changed-code", "warn")
    good = shelf.take("promptfoo/good.json")
    assert [shelf.gate(good, *missing, "--on-missing-baseline", what).code for what in ("warn", "fail")] == [0, 3]
    assert (out / "report.html").is_file()
    compared = read_record(out).baseline
    assert compared is not None
    assert (compared.on_changed_code, compared.base) == ("warn", None)


def test_cached_answers_are_named(shelf: Shelf) -> None:
    def cached(results: dict[str, Any]) -> dict[str, Any]:
        for row in results["results"]:
            row["response"]["cached"] = True
        return results

    ended = shelf.gate(shelf.change("promptfoo/good.json", results=cached))
    assert "3 of 3 answers are from promptfoo's cache: they are no new evidence" in ended.stdout


def test_the_data_are_those_of_the_program() -> None:
    """What is stored names no machine."""
    for file in Path(__file__).with_name("data").rglob("*"):
        text = file.read_bytes() if file.is_file() else b""
        assert not any(place in text for place in (b"/tmp/", b"/work/", b"/root/", b"/home/"))


def test_a_step_comments_on_results_like_on_a_run(shelf: Shelf, hub: FakeGitHub) -> None:
    pulls = hub.add_repository(REPOSITORY)
    pulls.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic", files=FILES)
    shelf.take("promptfoo/worse.json")
    workflow = Workflow(hub, shelf.project)
    ended = workflow.job(inputs={"args": "--results *.json\n--accept-stored"})
    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    (comment,) = pulls.comments(7)
    assert "greets again" in comment["body"]
    assert "these are results of promptfoo 0.123.1" in comment["body"]
    (check,) = pulls.check_runs(HEAD)
    assert check["conclusion"] == "failure"
    assert "no such file" in workflow.job(inputs={"args": "--results none/*.json"}).text
    policy = workflow.job(inputs={"args": "--policy gates.yaml"})
    assert (policy.code, "give --policy only with --results" in policy.text) == (2, True)
