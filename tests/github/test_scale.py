"""More failing cases than a check run shows, which answer up to 20 kB of everything hostile, through the whole step."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from holodeck_action.github.annotations import MOST_ANNOTATIONS
from holodeck_action.reports.comment.changes import State
from tests.action.step import Ended
from tests.commands.project import Project
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub
from tests.github.steps import ALL, Scene, check_no_token, rows
from tests.github.workflow import READS
from tests.reports.hostile import FRAGMENTS
from tests.reports.parsing import check_structure

CASES = MOST_ANNOTATIONS + 100
LENGTH, SHORTER = 20_000, 2_400
"""Characters of each twentieth answer and of the others: no comment and no annotation shows 2,000 of one."""
SENTINEL = "octocat"
"""Is in every hostile text, and in none of ours."""
HERE = "https://github.com/octo/shop"
LINK = re.compile(rf"{HERE}/(actions/runs/\d+(#artifacts)?|commit/{HEAD}|blob/{HEAD}/agent\.yaml#L[1-9]\d*)", re.ASCII)
SUMMARY = re.compile(r"<summary>[\w ,:()·]+</summary>")
MARKER = re.compile(r"<!-- holodeck-action:(report|review|case):[\w.%/:-]+ -->", re.ASCII)
SURROGATES = re.compile(r"\\u(d[89ab]..)\\u(d[c-f]..)")

# The suite alone takes seconds to write and to evaluate.
pytestmark = [pytest.mark.timeout(300), pytest.mark.full]


def hostile(hub: FakeGitHub, project: Project, cases: int = CASES) -> Scene:
    """A suite that is hostile in every text, of whose file the diff shows some lines."""
    made = Scene(hub, Project(project.folder / "workspace"))
    body = "".join(FRAGMENTS)
    answer = (body * (LENGTH // len(body) + 1))[:LENGTH]
    texts = [f"{number} {SENTINEL} {_turned(body, number * 7)[:200]}" for number in range(cases)]
    made.project.suite([{"name": text, "input": text, "ground_truth": text} for text in texts], name=texts[0])
    answers = [_turned(answer, number)[: SHORTER if number % 20 else LENGTH] for number in range(cases)]
    rows = [{"case": text, "response": response} for text, response in zip(texts, answers, strict=True)]
    made.project.answers(rows)
    made.project.policy(target="recorded:answers.jsonl")
    file = made.project.folder / "agent.yaml"
    # YAML has no pairs of surrogates, as JSON writes what is beyond 16 bits.
    file.write_text(SURROGATES.sub(_whole, file.read_text(encoding="utf-8")), encoding="utf-8")
    made.show_diff(first=1, last=400)
    return made


def _turned(text: str, by: int) -> str:
    by %= len(text)
    return text[by:] + text[:by]


def _whole(pair: re.Match[str]) -> str:
    return f"\\U{ord(bytes.fromhex(pair[1] + pair[2]).decode('utf-16-be')):08x}"


def check_markdown(text: str) -> None:
    """Check that the structure is ours alone, every link is to our own lines, and hostile text stands in code."""
    marker = text.splitlines()[0]

    def ours(line: str) -> object:
        known = line in ("<details>", "</details>") or MARKER.fullmatch(line) or SUMMARY.fullmatch(line)
        return known or State.read(f"{marker}\n{line}")

    check_structure(text, SENTINEL, ours=ours, link=LINK, prose=True)


def check_plain(text: str) -> None:
    """Check a text that GitHub shows as it is: nothing in it that cannot be seen or turns what follows around."""
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]", text
    )


def check_outputs(ended: Ended, cases: int = CASES) -> None:
    """Check that the outputs are ours alone."""
    urls = {name: ended.outputs[name] for name in ("comment-url", "check-url", "review-url")}
    assert {name: value for name, value in ended.outputs.items() if name not in urls} == {
        "verdict": "failed",
        "exit-code": "1",
        "passed": "0",
        "failed": str(cases),
        "errors": "0",
        "skipped": "0",
        "total": str(cases),
        "pass-rate": "0.0",
        "cost-usd": "",
        "results-path": "holodeck-results/results.json",
        "report-path": "holodeck-results/report.md",
        "html-path": "holodeck-results/report.html",
        "verdict-path": "holodeck-results/verdict.json",
    }
    for url in filter(None, urls.values()):
        assert re.fullmatch(rf"{HERE}/(pull/7#issuecomment-\d+|runs/\d+|pull/7#pullrequestreview-\d+)", url)


def bodies(scene: Scene) -> Iterator[str]:
    """Yield everything that GitHub renders as Markdown."""
    yield from (item["body"] for item in scene.repository.comments(7))
    yield from (item["body"] for item in scene.repository.reviews(7))
    yield from (item["body"] for item in scene.repository.review_comments(7))
    yield from (run["output"]["summary"] for run in scene.repository.check_runs(HEAD))


@pytest.mark.full
def test_everything_is_published_within_the_limits(hub: FakeGitHub, project: Project) -> None:
    scene = hostile(hub, project)
    ended = scene.step()
    assert ended.code == 1
    told = rows(ended.summary)
    assert told["check"].startswith(f"[failure, {MOST_ANNOTATIONS} annotations]")
    assert told["review"].startswith("[20 inline comments made]")
    check_outputs(ended)
    check_no_token(scene, ended)

    (run,) = scene.repository.check_runs(HEAD)
    assert (run["status"], run["conclusion"]) == ("completed", "failure")
    assert len(run["annotations"]) == MOST_ANNOTATIONS
    places = {(mark["path"], mark["start_line"]) for mark in run["annotations"]}
    assert len(places) == len(run["annotations"])
    for mark in run["annotations"]:
        assert mark["path"] == "agent.yaml"
        check_plain(mark["title"])
        check_plain(mark["message"])
    check_plain(run["output"]["title"])
    assert f"{CASES - MOST_ANNOTATIONS:,}" in run["output"]["summary"]

    (comment,) = scene.repository.comments(7)
    # What is left of them is told, and where it is.
    assert f"{HERE}/blob/{HEAD}/agent.yaml#L" in comment["body"]
    (review,) = scene.repository.reviews(7)
    assert len(scene.repository.review_comments(7)) == 20
    assert SENTINEL in review["body"]
    for body in bodies(scene):
        check_markdown(body)
    assert len(ended.summary.encode()) <= 1024 * 1024
    # The check run shows the annotations: the log has one command, which says why the step fails.
    assert [command.name for command in ended.meant if command.name != "add-mask"] == ["error"]
    assert scene.hub.violations == []


@pytest.mark.full
def test_with_a_token_that_reads_the_log_has_the_annotations(hub: FakeGitHub, project: Project) -> None:
    cases = 100
    scene = hostile(hub, project, cases)
    before = len(scene.hub.requests)
    ended = scene.step(ALL, permissions=READS)
    assert ended.code == 1
    check_outputs(ended, cases)
    check_no_token(scene, ended)
    assert list(bodies(scene)) == []
    assert all("skipped" in row and "permissions" in row for row in rows(ended.summary).values())
    meant = [command for command in ended.meant if command.name != "add-mask"]
    assert [command.name for command in meant] == ["error"] * 10
    *located, hidden, why = meant
    assert {command.properties["file"] for command in located} == {"agent.yaml"}
    # A line end that were one in the log, too, would end the command there.
    assert all("\nrun it alone: " in command.data for command in located)
    assert f"{cases - len(located):,} more" in hidden.data
    assert "FAILED" in why.data
    assert all(len(command.data.encode("utf-16-le")) <= 2 * 4096 for command in meant)
    lines = len(scene.project.folder.joinpath("agent.yaml").read_text(encoding="utf-8").split("\n"))
    assert all(1 <= int(command.properties["line"]) <= lines for command in located)
    # Each write is tried once: what is refused for good is not asked again.
    assert len(scene.hub.requests) - before < 20
    assert scene.hub.violations == []
