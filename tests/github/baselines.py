"""A repository whose default branch and pull requests are evaluated, commit by commit, on the fake GitHub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holodeck_action.record.record import BaseRun, Record
from holodeck_action.record.result_files import RESULTS_FILE, read_record
from tests.action.step import Ended
from tests.commands.project import Project
from tests.github.fake import FakeGitHub, Repository
from tests.github.fake.actions import Artifact
from tests.github.fake.permissions import Permissions
from tests.github.life import suite
from tests.github.workflow import REPOSITORY, InProcess, Start, Workflow

READER: Permissions = {"contents": "read", "actions": "read"}
WRITER: Permissions = {"contents": "write"}
QUIET = {"comment": "off", "check": "false"}
OUTPUT = "holodeck-results"


class Shop:
    """octo/shop: `main` has one commit, and a suite at the root of the checkout."""

    def __init__(self, hub: FakeGitHub, project: Project, source: str, start: Start | None = None) -> None:
        self.hub, self.project, self.source = hub, project, source
        self.repository: Repository = hub.add_repository(REPOSITORY)
        self.workflow = Workflow(hub, project, start or InProcess(), permissions=READER)
        self.git = self.repository.git
        self.git.refs["refs/heads/main"] = self.git.commit({"agent.yaml": "0"})
        suite(project)

    @property
    def main(self) -> str:
        """The commit that `main` names."""
        return self.git.refs["refs/heads/main"]

    def merge(self, *wrong: str) -> str:
        """Put a commit on `main`, with which some cases fail."""
        suite(self.project, *wrong)
        self.git.refs["refs/heads/main"] = self.git.commit({"agent.yaml": str(len(self.git.commits))}, self.main)
        return self.main

    def branch_off(self, *wrong: str, at: str = "") -> str:
        """Return a commit of a topic branch."""
        suite(self.project, *wrong)
        return self.git.commit({"topic": str(len(self.git.commits))}, at or self.main)

    def push(self, before: str = "0" * 40, sha: str = "", **options: Any) -> Ended:
        """Evaluate what was pushed to `main`."""
        after = sha or self.main
        return self.step(
            "push",
            after,
            {"before": before, "after": after},
            GITHUB_REF="refs/heads/main",
            GITHUB_SHA=after,
            **options,
        )

    def pull(self, head: str, event: str = "pull_request", **options: Any) -> Ended:
        """Evaluate the head of a pull request."""
        return self.step(event, head, {"pull_request.head.sha": head}, **options)

    def step(
        self,
        event: str,
        commit: str,
        payload: Mapping[str, Any] | None = None,
        inputs: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Ended:
        """Evaluate a commit."""
        given = {**QUIET, "baseline": self.source, **(inputs or {})}
        return self.workflow.job(event, given, payload=payload or {}, checkout=commit, **options)

    def upload(
        self,
        commit: str = "",
        name: str = OUTPUT,
        files: Mapping[str, bytes] | bytes | None = None,
        **run: Any,
    ) -> Artifact:
        """Upload the output folder, or files, as a run that has completed."""
        folder = self.project.folder / OUTPUT
        content = self.output(folder) if files is None else files
        actions = self.repository.actions
        return actions.upload(actions.add_run(commit or self.main, **run), content, name)

    @staticmethod
    def output(folder: Path) -> dict[str, bytes]:
        """Return the files of an output folder."""
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def record(self, folder: str = OUTPUT) -> Record:
        """The record of the last run."""
        return read_record(self.project.folder / folder / RESULTS_FILE)

    def base(self, folder: str = OUTPUT) -> BaseRun:
        """What the last run was compared with."""
        baseline = self.record(folder).baseline
        assert baseline is not None
        assert baseline.base is not None, baseline.missing
        kept = read_record(self.project.folder / folder / "base" / RESULTS_FILE)
        assert kept.provenance.commit == baseline.base.commit
        return baseline.base

    def missing(self) -> str:
        """Why the last run was compared with nothing."""
        baseline = self.record().baseline
        assert baseline is not None
        assert baseline.base is None
        assert not (self.project.folder / OUTPUT / "base" / RESULTS_FILE).exists()
        return baseline.missing
