"""Real repositories whose suite is compared with its merge base."""

from __future__ import annotations

import re

from holodeck_action.record.record import RecordedBaseline
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.commands.test_against import records
from tests.github.test_merge_base import git
from tests.llm.models import KEY

AGENT = """
def answer(messages):
    return {words!r}
"""


CONFIG = """[core]
repositoryformatversion = 0
[maintenance]
auto = false
"""
"""What `git init` writes; without looks for old objects after each commit."""


def repository(project: Project) -> Project:
    """A repository with `main` checked out: what `git init` makes, without a start of git."""
    for name in ("objects", "refs/heads", "hooks"):
        (project.folder / "shop/.git" / name).mkdir(parents=True)
    project.write("shop/.git/config", CONFIG)
    project.write("shop/.git/HEAD", "ref: refs/heads/main\n")
    project.write("shop/.gitignore", "out\n__pycache__\n")
    return Project(project.folder / "shop")


def commit(shop: Project, branch: str = "") -> str:
    """Commit everything, on a new branch if one is named; return the hash."""
    if branch:
        branch_here(shop, branch)
    git(shop.folder, "add", "-A")
    told = git(shop.folder, "-c", "core.abbrev=40", "commit", "-m", "change")
    found = re.search(r"\b[0-9a-f]{40}\b", told)
    assert found is not None, told
    return found[0]


def branch_here(shop: Project, branch: str) -> None:
    """Check out a branch at the commit that is checked out, as `git checkout -B` does without a start of git."""
    head = shop.folder / ".git" / "HEAD"
    here = shop.folder / ".git" / head.read_text(encoding="utf-8").strip().removeprefix("ref: ")
    shop.write(f".git/refs/heads/{branch}", here.read_bytes())
    shop.write(".git/HEAD", f"ref: refs/heads/{branch}\n")


def run(project: Project, *arguments: str, **environ: str) -> Finished:
    """Run beside the merge base."""
    return project.run("run", "-o", "out", "--baseline", "merge-base", *arguments, OPENAI_API_KEY=KEY, **environ)


def baseline(project: Project) -> RecordedBaseline:
    found = read_record(project.out / "results.json").baseline
    assert found is not None
    return found


def missing(project: Project, finished: Finished) -> str:
    """Why there was no base; the run itself is judged without."""
    assert finished.code == 0, finished.stdout + finished.stderr
    found = baseline(project)
    assert found.base is None
    assert found.missing[:80] in finished.stdout
    return found.missing


def by_code(shop: Project, words: str, count: int = 3) -> None:
    """A suite that code of its checkout answers."""
    cases = [{"name": f"case {at}", "input": f"question {at}", "ground_truth": "right"} for at in range(count)]
    shop.suite(cases)
    # Each case at once would have a process of its own.
    shop.policy(target="python:agent:answer", limits={"concurrency": 1})
    shop.write("agent.py", AGENT.format(words=words))


def responses(project: Project) -> tuple[set[str | None], set[str | None]]:
    head, base = records(project)
    return {turn.response for turn in head.turns}, {turn.response for turn in base.turns}
