"""Jobs of a workflow on the fake GitHub: the step as the runner starts it, as a process or in a container."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holodeck_action.workers.permission import SAFE_EVENTS
from tests.action.runner import read_log, read_pairs
from tests.action.step import Ended, action, inputs_for, run_here, run_process
from tests.commands.project import Project
from tests.github.events import MERGE, event_environ
from tests.github.fake import FakeGitHub, Token
from tests.github.fake.permissions import Permissions

TOKEN = "ghs_token-of-the-job"
BOT = "github-actions[bot]"
WRITES: Permissions = {"checks": "write", "pull_requests": "write", "contents": "read"}
READS: Permissions = {"checks": "read", "pull_requests": "read", "contents": "read", "issues": "read"}
REPOSITORY = "octo/shop"

Start = Callable[[Mapping[str, str], Path, Path], tuple[int, bytes, bytes]]
"""Runs a step with variables, in a workspace, with a folder of runner files; returns its code and two streams."""


def process(environ: Mapping[str, str], workspace: Path, files: Path) -> tuple[int, bytes, bytes]:
    """Run the step as a process of this machine."""
    return run_process(_known(environ, files), workspace)


@dataclass
class InProcess:
    """Runs a step in this process; `waits` are the seconds that it would have waited."""

    waits: list[float] = field(default_factory=list)

    def __call__(self, environ: Mapping[str, str], workspace: Path, files: Path) -> tuple[int, bytes, bytes]:
        """Run a step."""
        return run_here(_known(environ, files), workspace, self.waits.append)


GIT = """#!/bin/sh
case "$*" in
  *" init "*|*" update-ref "*|*" read-tree "*|*" status "*) exit 0;;
  *" rev-parse "*) echo objects;;
  *) exit 1;;
esac
"""
"""A git for a workspace that is a repository in name only: it has a commit, and no file is changed."""


def _known(environ: Mapping[str, str], files: Path) -> dict[str, str]:
    known = {"PATH": os.environ["PATH"], "HOME": str(files / "home"), **environ}
    is_safe = known.get("GITHUB_EVENT_NAME", "") in SAFE_EVENTS
    if not is_safe and not (Path(known["GITHUB_WORKSPACE"]) / ".git" / "objects").exists():
        known["PATH"] = path_with_git(files, known["PATH"])
    return known


def path_with_git(files: Path, path: str) -> str:
    """Return a PATH on which `GIT` comes first."""
    git = files / "bin" / "git"
    git.parent.mkdir(exist_ok=True)
    git.write_text(GIT, encoding="utf-8")
    git.chmod(0o755)
    return f"{git.parent}:{path}"


@dataclass
class Workflow:
    """A workflow of octo/shop whose jobs run in one checkout."""

    hub: FakeGitHub
    project: Project
    start: Start = field(default_factory=InProcess)
    number: int = 0
    permissions: Permissions = field(default_factory=lambda: WRITES)

    def check_out(self, sha: str) -> None:
        """Make the workspace a checkout of a commit, as actions/checkout leaves it."""
        self.project.write(".git/HEAD", f"{sha}\n")

    def job(
        self,
        name: str = "pull_request",
        inputs: Mapping[str, str] | None = None,
        *,
        payload: Mapping[str, Any] | None = None,
        checkout: str | None = MERGE,
        permissions: Permissions | None = None,
        login: str = BOT,
        **variables: str,
    ) -> Ended:
        """Run the step for an event.

        Args:
            name: of the payload in tests/github/payloads.
            inputs: by name with `-`.
            payload: fields of it to change, by dotted path.
            checkout: commit of the workspace.
            permissions: of the job's token.
            login: whose the token is.
            variables: of the runner, to change.
        """
        self.number += 1
        files = self.project.folder.with_name(f"{self.project.folder.name}-job-{self.number}")
        files.mkdir()
        for file in ("set_output", "step_summary"):
            (files / file).touch()
        if checkout is not None:
            self.check_out(checkout)
        self.hub.add_token(
            TOKEN, Token(login=login, kind="installation", permissions=dict(permissions or self.permissions))
        )
        given = {f"INPUT_{key.upper()}": described.get("default", "") for key, described in action()["inputs"].items()}
        given["INPUT_GITHUB-TOKEN"] = TOKEN
        given.update({f"INPUT_{key.upper()}": value for key, value in inputs_for(inputs or {}).items()})
        environ = {
            **event_environ(name, files, overrides=payload or {}),
            "GITHUB_ACTIONS": "true",
            "CI": "true",
            "GITHUB_API_URL": self.hub.url,
            "GITHUB_WORKSPACE": str(self.project.folder),
            "GITHUB_OUTPUT": str(files / "set_output"),
            "GITHUB_STEP_SUMMARY": str(files / "step_summary"),
            "ACTIONS_RUNTIME_TOKEN": "runtime-token-of-the-job",
            **given,
            "GITHUB_RUN_ID": str(4242 + self.number),
            "GITHUB_RUN_ATTEMPT": "1",
            **variables,
        }
        code, output, errors = self.start(environ, self.project.folder, files)
        assert errors == b"", errors.decode()
        assert b"Traceback" not in output
        pairs = read_pairs((files / "set_output").read_text(encoding="utf-8"))
        assert len(dict(pairs)) == len(pairs)
        summary = (files / "step_summary").read_text(encoding="utf-8")
        return Ended(code, output, read_log(output), dict(pairs), summary)
