"""The viewer's page, as commands write it: beside results, of one case, of several suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.reports.pages import Page


def page(file: Path) -> Page:
    return Page(file.read_text(encoding="utf-8"))


@pytest.mark.proves("run: --html")
def test_a_run_writes_it_unless_it_is_told_not_to(project: Project) -> None:
    project.numbered(4, wrong=frozenset({2}))
    assert project.run("run", "-o", "out").code == 1
    found = page(project.out / "report.html")
    assert found.index["id"] == ["case-2", "case-0", "case-1", "case-3"]
    assert found.head["sentence"] == "3 of 4 passed, all must pass · case 2: equality: 'wrong' differs from '2'"
    assert found.details["case-2"]["trials"][0]["turns"][0]["response"] == "wrong"
    written = project.run("report", "out/results.json", "--format", "html").stdout
    assert (Page(written).head, Page(written).details) == (found.head, found.details)
    assert project.run("run", "-o", "out", "--no-html").code == 1
    assert not (project.out / "report.html").exists()


def test_the_base_stands_beside_the_run(project: Project) -> None:
    project.numbered(12)
    assert project.run("run", "-o", "base").code == 0
    project.numbered(12, wrong=frozenset({3}))
    assert project.run("run", "-o", "out", "--baseline", "file:base").code == 1
    found = page(project.out / "report.html")
    assert found.row("case-3")["change"] == "regressed"
    both = found.details["case-3"]
    answers = [trials[0]["turns"][0]["response"] for trials in (both["trials"], both["base"])]
    assert answers == ["wrong", "3"]
    assert found.head["base"]["sentence"].startswith("1 case got worse")


def test_several_suites_have_a_page_each_and_one_together(project: Project) -> None:
    for name, wrong in (("one", frozenset[int]()), ("two", frozenset({0}))):
        inner = Project(project.folder / name)
        inner.folder.mkdir()
        inner.numbered(2, wrong=wrong)
    assert project.run("run", "one", "two", "-o", "out").code == 1
    assert page(project.out / "one" / "report.html").index["id"] == ["case-0", "case-1"]
    together = page(project.out / "report.html")
    assert (together.head["outcome"], together.head["exit_code"]) == ("failed", 1)
    assert together.head["sentence"] == "1 of 2 suites passed"
    assert [suite["file"] for suite in together.head["suites"]] == ["one/agent.yaml", "two/agent.yaml"]
    rows = zip(together.index["suite"], together.index["id"], together.index["outcome"], strict=True)
    assert list(rows) == [
        (1, "case-0", "failed"),
        (0, "case-0", "passed"),
        (0, "case-1", "passed"),
        (1, "case-1", "passed"),
    ]
    assert together.index["command"][0] == "holodeck-action run two/agent.yaml --case=case-0"


@pytest.mark.proves("report: --case")
def test_the_page_of_some_cases(project: Project) -> None:
    project.numbered(12)
    project.run("run", "-o", "out")
    some = project.run("report", "out/results.json", "--format", "html", "--case", "case-1*", "--case", "case 4")
    found = Page(some.stdout)
    assert found.index["id"] == [*found.details] == ["case-1", "case-4", "case-10", "case-11"]
    assert found.head["omitted"]["cases"] == 8
    assert found.head["suites"][0]["counts"]["passed"] == 12
    for arguments, sentence in (
        (("--format", "html", "--case", "nothing"), "error: --case 'nothing' matches no case\n"),
        (
            ("--case", "case-1"),
            "error: --case selects the cases of an HTML page and cannot be combined with --format console\n",
        ),
    ):
        refused = project.run("report", "out/results.json", *arguments)
        assert (refused.code, refused.stdout, refused.stderr) == (2, "", sentence)


@pytest.mark.proves("report: RESULTS")
def test_several_runs_are_columns_of_one_page(project: Project) -> None:
    for name, count, wrong in (("new", 4, {2}), ("old", 3, {0}), ("more", 5, set[int]())):
        project.numbered(count, wrong=frozenset(wrong))
        project.run("run", "-o", name)
    found = Page(project.run("report", "new/results.json", "old", "./more/results.json", "--format", "html").stdout)
    runs = [(run["name"], run["outcome"], run["pass_rate"]) for run in found.head["runs"]]
    assert runs == [("new", "failed", 0.75), ("old", "failed", 2 / 3), ("more", "passed", 1.0)]
    assert {name: (found.row(name)["runs"], found.row(name)["difference"]) for name in found.index["id"]} == {
        "case-2": (["failed", "passed", "passed"], "verdict"),
        "case-0": (["passed", "failed", "passed"], "verdict"),
        "case-1": (["passed", "passed", "passed"], None),
        "case-3": (["passed", None, "passed"], "verdict"),
        "case-4": ([None, None, "passed"], "verdict"),
    }
    assert found.row("case-4")["reason"] == "only other runs have this case"
    others = found.details["case-0"]["others"]
    assert [trials[0]["turns"][0]["response"] for trials in others] == ["wrong", "0"]
    assert found.details["case-3"]["others"][0] is None
    # The page of one run has no such columns.
    one = Page(project.run("report", "new", "--format", "html").stdout)
    assert (one.head["runs"], "runs" in one.index, "others" in one.details["case-0"]) == ([], False, False)


def test_runs_that_cannot_be_columns_are_refused(project: Project) -> None:
    project.numbered(1)
    project.run("run", "-o", "out")
    other = Project(project.folder / "other")
    other.folder.mkdir()
    other.suite([{"name": "another", "input": "q", "ground_truth": "a"}])
    other.answers([{"case": "another", "response": "a"}])
    other.policy(target="recorded:answers.jsonl")
    assert other.run("run", "-o", "out").code == 0
    for arguments, sentence in (
        (
            ("out", "out"),
            "several RESULTS can be shown only as an HTML page: add --format html, or give a single RESULTS",
        ),
        (("out",) * 7 + ("--format", "html"), "a page shows at most 6 runs, and there are 7: leave some out"),
        (
            ("out", "other/out", "--format", "html"),
            "other/out: has no case of out, so no case can be compared; give runs of the same suite",
        ),
    ):
        refused = project.run("report", *arguments)
        assert (refused.code, refused.stdout, refused.stderr) == (2, "", f"error: {sentence}\n")


def test_links_are_https_and_to_a_repository(project: Project) -> None:
    project.numbered(1)
    project.run("run", "-o", "out")
    here = {"GITHUB_REPOSITORY": "octo/shop", "GITHUB_RUN_ID": "7", "GITHUB_SERVER_URL": "https://git.example/"}
    for changed, address in (
        ({}, "https://git.example/octo/shop/actions/runs/7"),
        ({"GITHUB_SERVER_URL": "http://git.example"}, None),
        ({"GITHUB_SERVER_URL": "javascript:alert(1)//"}, None),
        ({"GITHUB_REPOSITORY": "octo/shop/../../evil"}, None),
        ({"GITHUB_RUN_ID": "7#x"}, None),
    ):
        shown = project.run("report", "out/results.json", "--format", "html", **{**here, **changed})
        assert Page(shown.stdout).head["run"]["run_url"] == address, changed
