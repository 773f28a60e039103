"""The workflows of docs/github.md, executed step by step as GitHub's runner does."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.action.step import Ended
from tests.commands.project import Project
from tests.github.events import BASE, HEAD, MERGE, event_of, payload
from tests.github.fake import FakeGitHub
from tests.github.fake.permissions import Permissions
from tests.github.life import FILES, latest_check, only_comment, ours, suite
from tests.github.workflow import REPOSITORY, Start, Workflow

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / "examples" / "workflows"
WRITTEN = ROOT / "holodeck_action" / "starter" / "evaluate.yml"
"""The workflow that `init` writes."""
OURS = "holodeck-action/holodeck-action"


class Runner:
    """Runs the jobs of the example workflows: checkouts, artifacts, and our step; nothing else is known."""

    def __init__(self, hub: FakeGitHub, workspace: Project, start: Start, artifacts: Path) -> None:
        self.workflow = Workflow(hub, workspace, start)
        self.workspace = workspace
        self.artifacts = artifacts

    def run(
        self, file: str, event: str, checkout: str, overrides: Mapping[str, Any] | None = None, **variables: str
    ) -> list[Ended]:
        """Run the job of a workflow that is for an event.

        Args:
            file: of the workflow.
            event: its payload's name.
            checkout: what actions/checkout takes without a `ref:`.
            overrides: fields of the payload to change, by dotted path.
            variables: of the runner, to change.
        """
        document = yaml.safe_load((WRITTEN if file == WRITTEN.name else WORKFLOWS / file).read_text(encoding="utf-8"))
        # YAML 1.1 reads `on` as true.
        assert event_of(event) in document[True], f"{file} does not start on {event}"
        [(name, job)] = [(name, job) for name, job in document["jobs"].items() if self._starts(job, event)]
        given = payload(event, overrides)
        ended: list[Ended] = []
        for step in job["steps"]:
            action, inputs = step["uses"].split("@")[0], self._inputs(step.get("with", {}), given)
            if action == "actions/checkout":
                self.workflow.check_out(inputs.get("ref", checkout))
            elif action == "actions/upload-artifact":
                # Without files it warns and makes no artifact.
                if (self.workspace.folder / inputs["path"]).is_dir():
                    self._keep(self.workspace.folder / inputs["path"], inputs["name"], event)
                    shutil.copytree(
                        self.workspace.folder / inputs["path"], self.artifacts / inputs["name"], dirs_exist_ok=True
                    )
            elif action == "actions/download-artifact":
                assert inputs["run-id"] == str(given["workflow_run"]["id"])
                if (self.artifacts / inputs["name"]).is_dir():
                    shutil.copytree(self.artifacts / inputs["name"], self.workspace.folder / inputs["path"])
                else:
                    assert step.get("continue-on-error") is True, "the job ends here, without a word on GitHub"
            else:
                assert action == OURS
                ended.append(
                    self.workflow.job(
                        event,
                        inputs,
                        payload=overrides,
                        checkout=None,
                        permissions=self._permissions(job["permissions"], event, given),
                        GITHUB_WORKFLOW=document["name"],
                        GITHUB_JOB=name,
                        **variables,
                    )
                )
        return ended

    def _keep(self, folder: Path, name: str, event: str) -> None:
        """Let GitHub know of an artifact; the run is over before another one looks for it."""
        sha = self.workspace.folder.joinpath(".git", "HEAD").read_text(encoding="utf-8").strip()
        branch = "main" if event == "push" else "topic"
        actions = self.workflow.hub.repository(REPOSITORY).actions
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        actions.upload(actions.add_run(sha, branch=branch, event=event_of(event)), files, name)

    @staticmethod
    def _starts(job: Mapping[str, Any], event: str) -> bool:
        """Tell whether a job is for an event, where its condition says no more than that."""
        condition = re.fullmatch(r"github\.event_name == '(\w+)'", str(job.get("if", "")))
        return condition is None or condition[1] == event_of(event)

    @staticmethod
    def _inputs(given: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, str]:
        """Put in what `${{ github.event.… }}` stands for."""

        def value(match: re.Match[str]) -> str:
            if match[1] == "github.token":
                return "ghs_token-of-the-job"
            found: Any = event
            for part in match[1].removeprefix("github.event.").split("."):
                found = found[part]
            return str(found)

        texts = {key: str(text).lower() if isinstance(text, bool) else str(text) for key, text in given.items()}
        return {key: re.sub(r"\$\{\{ (github\.[\w.]+) \}\}", value, text) for key, text in texts.items()}

    @staticmethod
    def _permissions(given: Permissions, event: str, about: Mapping[str, Any]) -> Permissions:
        """What the job's token gets: that of a fork's pull request can only read."""
        permissions = {key.replace("-", "_"): level for key, level in given.items()}
        head = about.get("pull_request", {}).get("head", {}).get("repo")
        if event_of(event) == "pull_request" and (head is None or head["full_name"] != REPOSITORY):
            permissions = dict.fromkeys(permissions, "read")
        return permissions


def evaluate_workflow(hub: FakeGitHub, project: Project, start: Start) -> None:
    """evaluate.yml on a pull request of the repository's own."""
    repository = hub.add_repository(REPOSITORY)
    repository.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic", merge_sha=MERGE, files=FILES)
    workspace = Project(project.folder / "workspace")
    suite(workspace, "refund")
    runner = Runner(hub, workspace, start, project.folder / "artifacts")
    (ended,) = runner.run("evaluate.yml", "pull_request", MERGE)

    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    assert "refund" in only_comment(repository)
    assert latest_check(repository, HEAD)["conclusion"] == "failure"
    assert (project.folder / "artifacts" / "holodeck-results" / "results.json").is_file()


def both_stages(hub: FakeGitHub, project: Project, start: Start) -> None:
    """evaluate-fork.yml on a fork's pull request, then publish-fork.yml on the default branch."""
    repository = hub.add_repository(REPOSITORY)
    forked = payload("pull_request.fork")
    sha, head = forked["pull_request"]["head"]["sha"], forked["pull_request"]["head"]["repo"]["full_name"]
    branch = forked["pull_request"]["head"]["ref"]
    repository.add_pull(forked["number"], head_sha=sha, head_repository=head, branch=branch, files=FILES)
    fork, base = Project(project.folder / "fork"), Project(project.folder / "base")
    suite(fork, "refund")
    base.write("README.md", "The default branch has no suite.\n")
    artifacts = project.folder / "artifacts"
    (first,) = Runner(hub, fork, start, artifacts).run("evaluate-fork.yml", "pull_request.fork", MERGE)

    assert (first.code, first.outputs["verdict"]) == (1, "failed")
    assert ours(repository, forked["number"]) == []
    assert [call for call in hub.requests if call.method != "GET"] == []

    overrides = {"workflow_run.head_sha": sha, "workflow_run.head_branch": branch}
    (second,) = Runner(hub, base, start, artifacts).run("publish-fork.yml", "workflow_run.fork", BASE, overrides)

    assert (second.code, second.outputs["verdict"]) == (0, "failed"), second.text
    body = only_comment(repository, forked["number"])
    assert "refund" in body
    assert f"/actions/runs/{payload('workflow_run.fork')['workflow_run']['id']}" in body
    assert f"/blob/{sha}/agent.yaml#L" in body
    (check,) = repository.check_runs(sha)
    assert (check["status"], check["conclusion"], len(check["annotations"])) == ("completed", "failure", 1)


def broken_after_green(hub: FakeGitHub, project: Project, start: Start) -> None:
    """A fork's suite that can no longer be read: what was green at the commit before does not stay so."""
    repository = hub.add_repository(REPOSITORY)
    forked = payload("pull_request.fork")
    number, head, branch = forked["number"], forked["pull_request"]["head"]["repo"]["full_name"], "topic"
    repository.add_pull(number, head_sha=HEAD, head_repository=head, branch=branch, files=FILES)

    def run(sha: str, name: str) -> Ended:
        there = project.folder / name
        fork, base = Project(there / "fork"), Project(there / "base")
        suite(fork)
        if sha != HEAD:
            fork.write("agent.yaml", "name: [broken\n")
        base.write("README.md", "The default branch has no suite.\n")
        about = {"pull_request.head.sha": sha}
        Runner(hub, fork, start, there / "artifacts").run("evaluate-fork.yml", "pull_request.fork", MERGE, about)
        about = {"workflow_run.head_sha": sha, "workflow_run.head_branch": branch}
        (ended,) = Runner(hub, base, start, there / "artifacts").run(
            "publish-fork.yml", "workflow_run.fork", BASE, about
        )
        return ended

    assert run(HEAD, "before").code == 0
    assert "✅" in only_comment(repository, number)
    broken = "b" * 40
    repository.push(number, head_sha=broken, files=FILES)
    ended = run(broken, "after")

    assert (ended.code, ended.outputs["verdict"]) == (2, "invalid")
    body = only_comment(repository, number)
    assert "✅" not in body
    assert "No verdict" in body
    (check,) = repository.check_runs(broken)
    assert (check["status"], check["conclusion"]) == ("completed", "failure")
