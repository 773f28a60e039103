"""Real repositories whose suite is compared with its merge base."""

from __future__ import annotations

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


def repository(project: Project) -> Project:
    """A repository with `main` checked out."""
    folder = project.folder / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    project.write("shop/.gitignore", "out\n__pycache__\n")
    return Project(folder)


def commit(shop: Project, branch: str = "") -> str:
    """Commit everything, on a new branch if one is named."""
    if branch:
        git(shop.folder, "checkout", "-q", "-b", branch)
    git(shop.folder, "add", "-A")
    git(shop.folder, "commit", "-q", "-m", "change")
    return git(shop.folder, "rev-parse", "HEAD")


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
