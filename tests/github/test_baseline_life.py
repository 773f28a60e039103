"""The life of a repository whose pull requests are compared with its default branch, for each source of results."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.action.step import Ended
from tests.commands.project import Project
from tests.github.baselines import OUTPUT, READER, WRITER, Shop
from tests.github.fake import FakeGitHub
from tests.github.life import FILES, only_comment, suite
from tests.github.stages import Runner
from tests.github.workflow import READS, REPOSITORY, InProcess

SOURCES = ["artifact", "file:accepted/results.json", "branch:holodeck-data"]
LENIENT = {"min-pass-rate": "0.5"}
"""With two of three cases right the run itself passes: only what got worse fails."""


class Kept(Shop):
    """A shop that keeps the results of what was evaluated on `main`, as its source needs it."""

    def evaluate_main(self, before: str = "0" * 40, **options: Any) -> Ended:
        """Evaluate `main` after a push, and keep the results."""
        accepted = self.project.folder / self.source.removeprefix("file:")
        known = accepted.exists() or not self.source.startswith("file:")
        inputs = {**LENIENT, "baseline": self.source if known else ""}
        ended = self.push(before, inputs=inputs, permissions={**READER, **WRITER}, **options)
        if self.source.startswith("file:"):
            # Somebody looked at them, and committed them.
            accepted.parent.mkdir(exist_ok=True)
            shutil.copy(self.project.folder / OUTPUT / "results.json", accepted)
        elif self.source == "artifact":
            self.upload()
        return ended

    def evaluate(self, head: str, event: str = "pull_request", **options: Any) -> Ended:
        """Evaluate a pull request."""
        return self.pull(head, event, inputs={**LENIENT, **options.pop("inputs", {})}, **options)

    def lose(self) -> None:
        """Take the results away."""
        for artifact in self.repository.actions.artifacts.values():
            artifact.expired = True
        (self.project.folder / "accepted" / "results.json").unlink(missing_ok=True)
        self.git.refs.pop("refs/heads/holodeck-data", None)

    def gate(self, name: str) -> str:
        """The state of a gate of the last run."""
        verdict = json.loads((self.project.folder / OUTPUT / "verdict.json").read_bytes())
        return str(next(gate["state"] for gate in verdict["gates"] if gate["name"] == name))


@pytest.mark.full
@pytest.mark.parametrize("source", SOURCES)
def test_a_repository_lives(hub: FakeGitHub, project: Project, source: str) -> None:
    shop = Kept(hub, project, source)
    by_commit = not source.startswith("file:")

    # The first run there has ever been has nothing to be compared with, and says so; a file must be there first.
    ended = shop.evaluate(shop.branch_off())
    assert ended.code == (0 if by_commit else 2)
    if by_commit:
        assert shop.gate("max_regressions") == "skipped"
        assert shop.missing()
    assert shop.evaluate_main().code == 0
    one = shop.main

    # A pull request breaks a case, and is repaired by a second push.
    head = shop.branch_off("refund")
    ended = shop.evaluate(head)
    assert (ended.code, shop.gate("max_regressions")) == (1, "failed")
    assert "refund" in ended.summary
    # A fork is compared with a token that can only read.
    seen = len(hub.requests)
    ended = shop.evaluate(head, "pull_request.fork", permissions={**READS, "actions": "read"})
    assert (ended.code, shop.gate("max_regressions")) == (1, "failed")
    assert [call.method for call in hub.requests[seen:] if call.method != "GET"] == []
    ended = shop.evaluate(shop.branch_off(), "pull_request.synchronize")
    assert (ended.code, shop.gate("max_regressions")) == (0, "passed")

    # Main breaks a case of its own: that is no change of the pull request, which is compared with where it began.
    shop.merge("shipping")
    ended = shop.evaluate_main(one)
    assert (ended.code, shop.gate("max_regressions")) == (1, "failed")
    shop.evaluate(shop.branch_off(at=one))
    assert shop.base().commit == (one if by_commit else shop.main)

    # Rebased, it has the case that main breaks, and is none the worse for it.
    ended = shop.evaluate(shop.branch_off("shipping"))
    assert (ended.code, shop.gate("max_regressions")) == (0, "passed")
    assert (shop.base().commit, shop.base().distance) == (shop.main, 0 if by_commit else None)

    # Main goes on without being evaluated: the nearest results are taken, and it is said how old they are.
    two = shop.main
    shop.merge("shipping")
    shop.merge("shipping")
    ended = shop.evaluate(shop.branch_off("shipping"))
    assert ended.code == 0
    assert shop.base().commit == two
    assert shop.base().distance == (2 if by_commit else None)
    assert ("2 commits before" in "".join(shop.base().notices)) == by_commit

    # The results are lost.
    shop.lose()
    ended = shop.evaluate(shop.branch_off("shipping"))
    if not by_commit:
        assert (ended.code, "cannot be read" in ended.text) == (2, True)
        return
    assert (ended.code, shop.gate("max_regressions")) == (0, "skipped")
    assert shop.missing() in " ".join(ended.summary.split())
    ended = shop.evaluate(shop.branch_off("shipping"), inputs={"on-missing-baseline": "fail"})
    assert (ended.code, ended.outputs["verdict"]) == (3, "incomplete")


@pytest.mark.needs
@pytest.mark.parametrize("source", ["artifact", "branch"])
def test_the_workflow_of_the_documentation(hub: FakeGitHub, project: Project, source: str) -> None:
    """It runs for a push to main, then for a pull request that breaks a case; permissions are those it gives."""
    workspace = Project(project.folder / "workspace")
    shop = Shop(hub, workspace, source)
    runner = Runner(hub, workspace, InProcess(), project.folder / "artifacts")
    file = "evaluate.yml" if source == "artifact" else "baseline-branch.yml"
    pushed = {"before": "0" * 40, "after": shop.main}
    main = {"GITHUB_REF": "refs/heads/main", "GITHUB_SHA": shop.main}
    (ended,) = runner.run(file, "push", shop.main, pushed, **main)
    assert (ended.code, ended.outputs["verdict"]) == (0, "passed")
    assert "not added" not in ended.text

    test_merge = shop.git.commit({}, shop.main, shop.branch_off("refund"))
    head = shop.git.commits[test_merge].parents[1]
    shop.repository.add_pull(7, head_sha=head, head_repository=REPOSITORY, branch="topic", files=FILES)
    (ended,) = runner.run(file, "pull_request", test_merge, {"pull_request.head.sha": head}, GITHUB_SHA=test_merge)
    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    assert (shop.base().commit, shop.base().wanted, shop.base().notices) == (shop.main, shop.main, ())
    assert shop.main[:7] in only_comment(shop.repository)


def test_the_workflow_of_accepted_results(hub: FakeGitHub, project: Project) -> None:
    """It fails without the file, and for a case that the accepted results pass; the artifact has the next ones."""
    workspace = Project(project.folder / "workspace")
    shop = Shop(hub, workspace, "file:accepted/results.json")
    head = shop.branch_off()
    shop.repository.add_pull(7, head_sha=head, head_repository=REPOSITORY, branch="topic", files=FILES)
    runner = Runner(hub, workspace, InProcess(), project.folder / "artifacts")
    shop.workflow = runner.workflow
    pull = {"pull_request.head.sha": head}
    (ended,) = runner.run("baseline-file.yml", "pull_request", head, pull)
    assert (ended.code, "accepted/results.json: cannot be read" in ended.text) == (2, True)

    shop.step("pull_request", head, pull, {"baseline": ""})
    workspace.write("accepted/results.json", (workspace.folder / OUTPUT / "results.json").read_bytes())
    suite(workspace, "refund")
    (ended,) = runner.run("baseline-file.yml", "pull_request", head, pull)
    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    assert shop.base().source == "file:accepted/results.json"
    assert head[:7] in only_comment(shop.repository)
    assert (project.folder / "artifacts" / OUTPUT / "results.json").is_file()


def test_results_that_are_no_results_are_a_configuration_error(hub: FakeGitHub, project: Project) -> None:
    """A file that is named is a promise: it is told before anything runs."""
    shop = Shop(hub, project, "file:accepted/results.json")
    for content, reason in (("", "not valid JSON"), ('{"suite": {}, "schema_version": 9}', "schema_version is 9")):
        project.write("accepted/results.json", content)
        ended = shop.pull(shop.branch_off())
        assert (ended.code, ended.outputs["verdict"]) == (2, "invalid")
        assert reason in ended.text
        assert not (project.folder / OUTPUT / "results.json").exists()


def test_a_push_that_rewrites_main(hub: FakeGitHub, project: Project) -> None:
    """What was there before has results, though it is on no branch any more."""
    shop = Kept(hub, project, "artifact")
    shop.evaluate_main()
    lost = shop.main
    shop.git.refs["refs/heads/main"] = shop.git.commit({"agent.yaml": "rewritten"})
    suite(project)
    shop.evaluate_main(lost)
    assert (shop.base().commit, shop.base().distance) == (lost, 0)


def test_a_nightly_run_is_compared_with_the_last_run_of_its_commit(hub: FakeGitHub, project: Project) -> None:
    shop = Kept(hub, project, "artifact")
    shop.evaluate_main()
    suite(project, "refund")
    ended = shop.step("schedule", shop.main, inputs=LENIENT, GITHUB_SHA=shop.main)
    assert (ended.code, shop.gate("max_regressions")) == (1, "failed")
    assert (shop.base().commit, shop.base().distance) == (shop.main, 0)


class Trees(Kept):
    """A shop whose commits on `main` hold the suite, as a run beside them needs."""

    def merge(self, *wrong: str) -> str:
        """Put a commit with the whole suite on `main`."""
        suite(self.project, *wrong)
        names = ("agent.yaml", "answers.jsonl", "holodeck-action.yaml")
        files = {name: (self.project.folder / name).read_bytes() for name in names}
        self.git.refs["refs/heads/main"] = self.git.commit(files, self.main)
        return self.main


@pytest.mark.full
def test_a_repository_lives_beside_its_merge_bases(hub: FakeGitHub, project: Project) -> None:
    shop = Trees(hub, project, "merge-base")

    # Main has no suite yet that could be run.
    assert shop.evaluate(shop.branch_off()).code == 0
    assert shop.gate("max_regressions") == "skipped"
    assert shop.missing()
    one = shop.merge()
    assert shop.push(one, shop.git.commit({"more": "1"}, one), inputs=LENIENT).code == 0
    assert shop.base().commit == one

    # A pull request breaks a case, and is repaired by a second push.
    ended = shop.evaluate(shop.branch_off("refund"))
    assert (ended.code, shop.gate("max_regressions")) == (1, "failed")
    assert "refund" in ended.summary
    ended = shop.evaluate(shop.branch_off(), "pull_request.synchronize")
    assert (ended.code, shop.gate("max_regressions")) == (0, "passed")

    # Main breaks a case of its own: a pull request is compared with where it began, and rebased with what is there now.
    shop.merge("shipping")
    ended = shop.push(one, inputs=LENIENT)
    assert (ended.code, shop.gate("max_regressions")) == (1, "failed")
    shop.evaluate(shop.branch_off(at=one))
    assert shop.base().commit == one
    ended = shop.evaluate(shop.branch_off("shipping"))
    assert (ended.code, shop.gate("max_regressions"), shop.base().commit) == (0, "passed", shop.main)

    # A fork is compared with a token that can only read.
    seen = len(hub.requests)
    ended = shop.evaluate(shop.branch_off("refund", "shipping"), "pull_request.fork", permissions=READS)
    assert (ended.code, shop.gate("max_regressions")) == (1, "failed")
    assert [call.method for call in hub.requests[seen:] if call.method != "GET"] == []

    # The base branch is deleted.
    head = shop.branch_off("shipping")
    del shop.git.refs["refs/heads/main"]
    ended = shop.evaluate(head)
    assert (ended.code, shop.gate("max_regressions")) == (0, "skipped")
    assert shop.missing() in " ".join(ended.summary.split())
    ended = shop.evaluate(head, inputs={"on-missing-baseline": "fail"})
    assert (ended.code, ended.outputs["verdict"]) == (3, "incomplete")
