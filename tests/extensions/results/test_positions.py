"""Cases and checks have the lines of the other programs' own files, where these are found."""

from __future__ import annotations

import json
from typing import Any

from holodeck_action.record.result_files import read_record
from tests.extensions.results.conftest import DATA, Shelf
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub
from tests.github.life import FILES
from tests.github.workflow import REPOSITORY, Workflow


def _positions(shelf: Shelf, *arguments: str) -> dict[str | None, list[str]]:
    """Where each case and its checks are, by the case's name."""
    shelf.gate(*arguments, "--no-html")
    found = {}
    for case in read_record(shelf.project.folder / "out").cases:
        marks = [case.source, *(each.criteria.source for each in case.evaluations if each.criteria.source is not None)]
        found[case.name] = [str(mark) for mark in dict.fromkeys(marks)]
    return found


def test_tests_of_promptfoo_are_found_in_its_configuration_and_the_files_that_it_names(shelf: Shelf) -> None:
    file, row = shelf.take("promptfoo/every.json"), ["every.json: row 1"]
    assert _positions(shelf, file)["good"] == row
    text = (DATA / "promptfoo" / "every.yaml").read_text(encoding="utf-8")
    shelf.project.write("evals/promptfooconfig.yaml", text)
    found = _positions(shelf, file)
    assert found["good"] == ["evals/promptfooconfig.yaml:5:5", "evals/promptfooconfig.yaml:7:14"]
    assert found["fails"][1:] == ["evals/promptfooconfig.yaml:10:14", "evals/promptfooconfig.yaml:10:47"]
    assert all(places[0].startswith("evals/") for places in found.values())
    head, _, tests = text.partition("tests:\n")
    shelf.project.write("evals/promptfooconfig.yaml", f"{head}tests: ['file://cases/*.yaml', 'file://none.py']\n")
    shelf.project.write("evals/cases/some.yaml", tests)
    assert _positions(shelf, file)["good"][0] == "evals/cases/some.yaml:1:5"
    # Of two equal tests, neither is known to be the one; what cannot be read is left out.
    shelf.project.write("promptfooconfig.yml", f"tests:\n{tests}")
    assert _positions(shelf, file)["good"] == row
    shelf.project.write("promptfooconfig.yml", "tests: [")
    assert _positions(shelf, file)["good"][0] == "evals/cases/some.yaml:1:5"


def test_functions_and_folders_that_define_cases_are_found(shelf: Shelf) -> None:
    shelf.take("inspect/sums.py.txt", "sums.py")
    line = shelf.project.folder.joinpath("sums.py").read_text(encoding="utf-8").splitlines().index("def sums():") + 1
    assert _positions(shelf, shelf.take("inspect/sums.eval"))["sums: two"] == [f"sums.py:{line}:1"]
    shelf.take("deepeval/test_every.py.txt", "test_every.py")
    found = _positions(shelf, shelf.take("deepeval/every.json"), "--cases", "6")
    assert (found["test_answers"], found["flaky"]) == (["test_every.py:47:1"], ["test_every.py:1:1"])
    for name in ("a\0b", "\ud800"):
        shelf.change("deepeval/every.json", testFile=name)
        assert _positions(shelf, "changed.json", "--cases", "6")["test_answers"] == ["changed.json: row 1"]

    def moved(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**case, "source": "case_yaml" if case["name"] == "second" else "prose"} for case in cases]

    suite = json.loads((DATA / "plugin-eval" / "aggregate-result.json").read_text(encoding="utf-8"))["suite"]
    root = str(shelf.project.folder / "plug")
    file = shelf.change("plugin-eval/aggregate-result.json", cases=moved, suite={**suite, "root": root})
    shelf.project.write("plug/evals/err/prompt.md", "Do it.")
    graders = "graders:\n  - {name: r, type: regex}\n  - {name: fired, type: tool_used}\n"
    shelf.project.write("plug/evals/second/case.yaml", f"schema_version: '1.0'\n{graders}")
    found = _positions(shelf, file, "--cases", "3")
    assert found["evals/err"] == ["plug/evals/err/prompt.md:1:1"]
    assert sorted(found["evals/second"]) == [f"plug/evals/second/case.yaml:{at}" for at in ("1:1", "3:5", "4:5")]


def test_failures_are_annotated_at_the_assertion(shelf: Shelf, hub: FakeGitHub) -> None:
    pulls = hub.add_repository(REPOSITORY)
    pulls.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic", files=FILES)
    shelf.take("promptfoo/every.json")
    shelf.take("promptfoo/every.yaml", "promptfooconfig.yaml")
    assert Workflow(hub, shelf.project).job(inputs={"args": "--results *.json\n--accept-stored"}).code == 1
    (check,) = pulls.check_runs(HEAD)
    places = {(each["path"], each["start_line"]) for each in check["annotations"]}
    assert ("promptfooconfig.yaml", 10) in places
