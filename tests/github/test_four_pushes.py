"""Four pushes of one pull request: worse, worse elsewhere, the same, fixed. Its comment tells one consistent story.

`UPDATE_GOLDEN=1` writes the comments anew.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.github.fake import FakeGitHub, Repository
from tests.github.life import FILES, head, only_comment
from tests.github.repositories import commit, repository
from tests.github.test_merge_base import git
from tests.github.workflow import REPOSITORY, WRITES, Workflow

GOLDEN = Path(__file__).with_name("four_pushes.md")
TRUTHS = {"refund": "30 days", "shipping": "2 days", "warranty": "1 year"}
PUSHES = (("refund",), ("shipping", "warranty"), ("shipping", "warranty"), ())
"""The cases that each push answers wrongly; `main` answers all correctly."""
READS_RUNS = {**WRITES, "actions": "read"}
VOLATILE = re.compile(
    r"<!-- holodeck-action:state.*?-->|(?<=<sub>)[\d.]+ m?s|(?<=\) · )[\d.]+ m?s(?= · )|(?<=actions/runs/)\d+|"
    r"holodeck-action [\d.]+\w*"
)


def write(project: Project, wrong: tuple[str, ...]) -> None:
    """Write a suite whose agent answers some cases wrongly."""
    project.suite(
        [{"name": name, "input": f"How long is the {name}?", "ground_truth": truth} for name, truth in TRUTHS.items()],
        name="shop",
    )
    answers = {f"How long is the {name}?": "no idea" if name in wrong else truth for name, truth in TRUTHS.items()}
    project.write("agent.py", f"def answer(messages):\n    return {answers!r}[messages[-1]['content']]\n")
    # Within a second, Python would use its compiled file for another one of the same size.
    shutil.rmtree(project.folder / "__pycache__", ignore_errors=True)
    project.policy(target="python:agent:answer", limits={"concurrency": 1})


def pushes_on_merge_base(hub: FakeGitHub, project: Project) -> list[tuple[str, str]]:
    """Return each push's commit and comment; the base runs beside the head, from a real repository."""
    shop = repository(project)
    workflow = Workflow(hub, shop, permissions=READS_RUNS)
    remote = hub.add_repository(REPOSITORY)
    write(shop, ())
    fork = commit(shop)
    git(shop.folder, "remote", "add", "origin", "https://github.com/octo/shop")
    git(shop.folder, "checkout", "-q", "-b", "topic")
    told: list[tuple[str, str]] = []
    for wrong in PUSHES:
        write(shop, wrong)
        shop.write("changed", str(len(told)))
        topic = commit(shop)
        _push(remote, topic, first=not told)
        inputs = {"baseline": "merge-base", "check": "false"}
        workflow.job(inputs=inputs, payload={**head(topic), "pull_request.base.sha": fork}, checkout=None)
        told.append((topic, only_comment(remote)))
    return [(fork, ""), *told]


def _push(remote: Repository, topic: str, *, first: bool) -> None:
    if first:
        remote.add_pull(7, head_sha=topic, head_repository=REPOSITORY, branch="topic", files=FILES)
    else:
        remote.push(7, head_sha=topic, files=FILES)


@pytest.mark.full
def test_the_comments_of_four_pushes_tell_one_story(hub: FakeGitHub, project: Project) -> None:
    commits = pushes_on_merge_base(hub, project)
    text = "".join(f"# Push {number}\n\n{body}\n\n" for number, (_, body) in enumerate(commits) if body)
    for number, (sha, _) in enumerate(commits):
        name = f"commit-{number}" if number else "main-commit"
        text = text.replace(sha, name).replace(sha[:7], name)
    # Under load, answers may take longer than on the base.
    text = VOLATILE.sub("…", re.sub("median latency [^·]+· ", "", text))
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8", newline="\n")
    assert text == GOLDEN.read_text(encoding="utf-8"), f"{GOLDEN.name} differs; UPDATE_GOLDEN=1 writes it anew"
