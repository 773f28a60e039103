"""Jobs of the shop's workflows, executed step by step as GitHub's runner does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.action.step import Ended
from tests.commands.project import Project
from tests.github.events import event_of
from tests.github.fake import FakeGitHub
from tests.github.workflow import REPOSITORY, Start, Workflow

OURS = "holodeck-action/holodeck-action"
_EXPRESSION = re.compile(r"\$\{\{ ([\w.]+) \}\}")
_LABELLED = re.compile(
    r"\$\{\{ \(github\.event_name != 'pull_request' \|\| "
    r"contains\(github\.event\.pull_request\.labels\.\*\.name, '([\w-]+)'\)\) && '(\w*)' \|\| '(\w*)' \}\}"
)
"""An expression with a text for other events than pull requests and for those with a label, and one for the others."""


@dataclass(frozen=True)
class Occasion:
    """What starts a workflow.

    Attributes:
        event: the name of a payload in tests/github/payloads.
        commit: the commit that is checked out.
        ref: the reference that it is checked out for.
        payload: fields of the payload to change, by dotted path.
    """

    event: str
    commit: str
    ref: str
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Done:
    """A finished job: our step, and the folder of its results."""

    ended: Ended
    output: Path


class Jobs:
    """Runs the workflows of a checkout.

    Args:
        hub: the fake GitHub.
        folder: the checkout.
        start: how our step is started.
        secrets: values of `${{ secrets.NAME }}` and `${{ vars.NAME }}`, by the whole name.
        variables: further variables of each step.
    """

    def __init__(
        self,
        hub: FakeGitHub,
        folder: Path,
        start: Start,
        secrets: Mapping[str, str],
        variables: Mapping[str, str],
    ) -> None:
        self._hub = hub
        self._workflow = Workflow(hub, Project(folder), start)
        self._secrets = secrets
        self._variables = variables

    def run(self, file: str, occasion: Occasion) -> Done:
        """Run the job of a workflow.

        Raises:
            ValueError: the workflow has a step that this runner does not know, or does not start on the event.
            AssertionError: the step wrote a traceback, or something the runner does not understand.
        """
        folder = self._workflow.project.folder
        text = folder.joinpath(".github", "workflows", file).read_text(encoding="utf-8")
        document = yaml.safe_load(text)
        # YAML 1.1 reads `on` as true.
        if event_of(occasion.event) not in document[True]:
            raise ValueError(f"{file} does not start on {occasion.event}")
        [(name, job)] = document["jobs"].items()
        done: Done | None = None
        for step in job["steps"]:
            action = step.get("uses", "").split("@")[0]
            given = {key: self._filled(value, occasion) for key, value in step.get("with", {}).items()}
            environ = {key: self._filled(value, occasion) for key, value in step.get("env", {}).items()}
            if "run" in step:
                self._script(step["run"], environ)
            elif action == OURS:
                ended = self._workflow.job(
                    occasion.event,
                    given,
                    payload=occasion.payload,
                    checkout=None,
                    permissions={key.replace("-", "_"): level for key, level in job["permissions"].items()},
                    GITHUB_SHA=occasion.commit,
                    GITHUB_REF=occasion.ref,
                    GITHUB_WORKFLOW=document["name"],
                    GITHUB_JOB=name,
                    GITHUB_WORKFLOW_REF=f"{REPOSITORY}/.github/workflows/{file}@{occasion.ref}",
                    **{**self._variables, **environ},
                )
                done = Done(ended, folder / given.get("output-dir", "holodeck-results"))
            elif action == "actions/upload-artifact":
                self._upload(folder / given["path"], given["name"], occasion, file)
            elif action != "actions/checkout":
                raise ValueError(f"{file} uses {action or step}, which the tour cannot do")
        if done is None:
            raise ValueError(f"{file} has no step of ours")
        return done

    def command(self, line: str) -> tuple[int, str]:
        """Run a command line in the checkout, without a shell; return its exit code and output."""
        done = subprocess.run(
            shlex.split(line),
            cwd=self._workflow.project.folder,
            env={**_desk_environ(self._workflow.project.folder), **self._variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        return done.returncode, done.stdout

    def _script(self, script: str, environ: Mapping[str, str]) -> None:
        folder = self._workflow.project.folder
        subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=folder,
            env={**_desk_environ(folder), **self._variables, **environ},
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=True,
        )

    def _upload(self, folder: Path, name: str, occasion: Occasion, file: str) -> None:
        if not folder.is_dir():
            return
        actions = self._hub.repository(REPOSITORY).actions
        branch = "main" if occasion.ref == "refs/heads/main" else "topic"
        run = actions.add_run(
            occasion.commit, branch=branch, event=event_of(occasion.event), path=f".github/workflows/{file}"
        )
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        actions.upload(run, files, name)

    def _filled(self, value: Any, occasion: Occasion) -> str:
        """Return an input or variable of a workflow with its expressions replaced."""
        labels = {label["name"] for label in occasion.payload.get("pull_request.labels", ())}
        elsewhere = event_of(occasion.event) != "pull_request"
        text = str(value).lower() if isinstance(value, bool) else str(value)
        text = _LABELLED.sub(lambda found: found[2] if elsewhere or found[1] in labels else found[3], text)
        return _EXPRESSION.sub(lambda found: self._secrets[found[1]], text)


def _desk_environ(folder: Path) -> dict[str, str]:
    """Return the variables of a person's shell, in which our command is the one of this Python."""
    programs = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([programs, os.environ["PATH"]]),
        "HOME": str(folder.parent),
        "COLUMNS": "120",
    }


def copy_output(source: Path, target: Path) -> None:
    """Keep the results of a run, if it has any."""
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
