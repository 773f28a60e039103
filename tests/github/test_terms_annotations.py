"""A pull request that makes its own terms laxer: what stands in the first lines of comment, check and job summary."""

from __future__ import annotations

import json

import pytest

from tests.commands.project import Project
from tests.github.baselines import READER, WRITER, Shop
from tests.github.fake import FakeGitHub
from tests.github.life import FILES, latest_check, only_comment, suite
from tests.github.test_baseline_life import SOURCES, Kept
from tests.github.workflow import REPOSITORY, WRITES

SAID = "lowers min\\_pass\\_rate from 1 to 0.5 at `holodeck-action.yaml:4` and quarantines refund at "


def loosen(shop: Shop, **baseline: str) -> str:
    """Return a commit that lowers a gate, quarantines a failing case and deletes another."""
    suite(shop.project, "refund")
    agent = json.loads((shop.project.folder / "agent.yaml").read_text())
    agent["test_cases"] = agent["test_cases"][:2]
    shop.project.write("agent.yaml", json.dumps(agent, indent=1))
    shop.project.policy(
        target="recorded:answers.jsonl",
        gates={"min_pass_rate": 0.5},
        quarantine=[{"case": "refund", "reason": "r", "owner": "o", "expires": "2099-01-31"}],
        **({"baseline": baseline} if baseline else {}),
    )
    return shop.git.commit({"topic": str(len(shop.git.commits))}, shop.main)


@pytest.mark.needs
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("word", ["warn", "fail"])
def test_it_stands_in_the_first_lines_and_at_its_line(
    hub: FakeGitHub, project: Project, source: str, word: str
) -> None:
    shop = Kept(hub, project, source)
    # Without the flags of the workflow the gates of the files count.
    known = source.startswith("file:")
    shop.push(inputs={"baseline": "" if known else source}, permissions={**READER, **WRITER})
    if known:
        (project.folder / "accepted").mkdir()
        (project.folder / "holodeck-results" / "results.json").rename(project.folder / "accepted" / "results.json")
    elif source == "artifact":
        shop.upload()
    head = loosen(shop)
    shop.repository.add_pull(7, head_sha=head, head_repository=REPOSITORY, branch="topic", files=FILES)
    inputs = {"comment": "always", "check": "true", "on-loosened": word}
    ended = shop.pull(head, inputs=inputs, permissions={**WRITES, "actions": "read"})
    assert ended.code == (1 if word == "fail" else 0), ended.text
    body = only_comment(shop.repository)
    # The first two are hidden; that of a failure begins with the kind of an alert.
    first = body.splitlines()[2:5]
    assert SAID in (first[1] if word == "fail" else first[0])
    check = latest_check(shop.repository, head)
    assert SAID in "\n".join(check["output"]["summary"].splitlines()[:3])
    if word == "warn":
        assert check["output"]["title"].startswith("PASSED: shop · 1 of 1 passed")
        assert check["output"]["title"].endswith("; under other terms than the base")
    else:
        assert check["output"]["title"].startswith("FAILED: shop · the terms are less strict than on the base")
        assert "; the run removes " in check["output"]["title"]
    assert SAID in "\n".join(ended.summary.splitlines()[:3])
    marks = [(mark["path"], mark["start_line"], mark["annotation_level"]) for mark in check["annotations"]]
    level = "failure" if word == "fail" else "warning"
    assert marks[:2] == [("holodeck-action.yaml", 4, level), ("holodeck-action.yaml", 8, level)]
    assert check["annotations"][0]["title"] == (
        "UNLIKE THE BASE · lowers min_pass_rate from 1 to 0.5 at holodeck-action.yaml:4"
    )


def test_the_pull_request_cannot_ignore_it_for_itself(hub: FakeGitHub, project: Project) -> None:
    shop = Kept(hub, project, "artifact")
    shop.push(inputs={"on-loosened": "fail"})
    shop.upload()
    ended = shop.pull(loosen(shop, source="artifact", on_loosened="ignore"), inputs={"baseline": ""})
    assert ended.code == 1, ended.text
    assert "sets on\\_loosened to ignore instead of fail" in ended.summary


def test_of_several_suites_the_first_lines_name_the_one(hub: FakeGitHub, project: Project) -> None:
    shop = Kept(hub, project, "artifact")
    for name in ("a", "b"):
        inner = Project(project.folder / name)
        inner.folder.mkdir()
        suite(inner, name=name)
    (project.folder / "agent.yaml").unlink()
    given = {"suite": "a\nb"}
    shop.push(inputs=given)
    shop.upload()
    Project(project.folder / "b").policy(target="recorded:answers.jsonl", gates={"min_pass_rate": 0.5})
    head = shop.git.commit({"topic": "1"}, shop.main)
    shop.repository.add_pull(7, head_sha=head, head_repository=REPOSITORY, branch="topic", files=FILES)
    permissions = {**WRITES, "actions": "read"}
    ended = shop.pull(head, inputs={**given, "comment": "always", "check": "true"}, permissions=permissions)
    assert ended.code == 0, ended.text
    said = "lowers min\\_pass\\_rate from 1 to 0.5 at `holodeck-action.yaml:4` in b"
    assert only_comment(shop.repository).splitlines()[2].endswith(said)
    (check,) = (found for found in shop.repository.check_runs(head))
    assert said in check["output"]["summary"].splitlines()[0]
    assert said in ended.summary.splitlines()[0]


@pytest.mark.full
@pytest.mark.parametrize("word", ["warn", "fail"])
def test_code_that_grades_is_named_in_the_first_lines(hub: FakeGitHub, project: Project, word: str) -> None:
    shop = Kept(hub, project, "artifact")
    project.write("gr.py", "def g(ctx):\n    return ctx.agent_response == 'good'\n")
    project.suite([{"name": "c", "input": "q"}], [{"type": "code", "grader": "gr:g"}])
    project.answers([{"case": "c", "response": "good"}])
    project.policy(target="recorded:answers.jsonl")
    shop.push(inputs={"baseline": "artifact"}, permissions={**READER, **WRITER})
    shop.upload()
    project.write("gr.py", "def g(ctx):\n    return True\n")
    project.answers([{"case": "c", "response": "bad"}])
    head = shop.git.commit({"topic": str(len(shop.git.commits))}, shop.main)
    shop.repository.add_pull(7, head_sha=head, head_repository=REPOSITORY, branch="topic", files=FILES)
    inputs = {"comment": "always", "check": "true", "baseline": "artifact", "on-changed-code": word}
    ended = shop.pull(head, inputs=inputs, permissions={**WRITES, "actions": "read"})
    assert ended.code == (1 if word == "fail" else 0), ended.text
    said = "changes the code of g `(gr.py)`"
    check = latest_check(shop.repository, head)["output"]["summary"]
    for text, lines in ((only_comment(shop.repository), 5), (check, 4), (ended.summary, 4)):
        assert said in "\n".join(text.splitlines()[:lines]), text
