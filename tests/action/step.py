"""The step as the runner starts it: a real process with the runner's variables and files."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.action.runner import Command, Log, read_log, read_pairs
from tests.cli.project import Project

ROOT = Path(__file__).parents[2]
ENTRYPOINT = ROOT / "entrypoint.py"


@dataclass(frozen=True)
class Ended:
    """What the runner and the steps after this one see of an ended step."""

    code: int
    output: bytes
    log: Log
    outputs: dict[str, str]
    summary: str

    @property
    def text(self) -> str:
        return "\n".join(self.log.text)

    @property
    def report(self) -> str:
        """The job summary without what it says of the channels."""
        return self.summary.partition("\n### Published\n")[0].strip()

    @property
    def meant(self) -> list[Command]:
        """The commands without those that only stop others."""
        return [command for command in self.log.commands if command.name != "stop-commands"]


def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return loaded


class Step:
    """A step in a workspace; inputs are given by their names with underscores."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.files = project.folder.with_name(project.folder.name + "-runner")
        self.files.mkdir()
        self.output_file = self.files / "set_output"
        self.summary_file = self.files / "step_summary"

    def environ(self, inputs: dict[str, str], more: dict[str, str | None]) -> dict[str, str]:
        """The variables of the runner: every input of action.yml is set, to nothing where it is not given."""
        variables: dict[str, str | None] = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.files / "home"),
            "GITHUB_ACTIONS": "true",
            "CI": "true",
            "GITHUB_WORKSPACE": str(self.project.folder),
            "GITHUB_OUTPUT": str(self.output_file),
            "GITHUB_STEP_SUMMARY": str(self.summary_file),
            "GITHUB_ENV": str(self.files / "set_env"),
            "GITHUB_PATH": str(self.files / "add_path"),
            "GITHUB_STATE": str(self.files / "save_state"),
            "GITHUB_REPOSITORY": "octo/shop",
            "ACTIONS_RUNTIME_TOKEN": "runtime-token-of-the-job",
        }
        for name, described in action()["inputs"].items():
            default = "ghs_token-of-the-job" if name == "github-token" else described.get("default", "")
            variables[f"INPUT_{name.upper()}"] = default
        variables.update({f"INPUT_{name.replace('_', '-').upper()}": value for name, value in inputs.items()})
        variables.update(more)
        return {name: value for name, value in variables.items() if value is not None}

    def run(
        self,
        inputs: dict[str, str] | None = None,
        cwd: Path | None = None,
        arguments: tuple[str, ...] = (),
        **more: Any,
    ) -> Ended:
        for file in (self.output_file, self.summary_file):
            file.touch()
        finished = subprocess.run(
            [sys.executable, str(ENTRYPOINT), *arguments],
            cwd=cwd or self.project.folder,
            env=self.environ(inputs or {}, more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=100,
            check=False,
        )
        if not arguments:
            # Two streams reach the runner in no fixed order.
            assert finished.stderr == b""
        assert b"Traceback" not in finished.stdout + finished.stderr
        pairs = read_pairs(self.output_file.read_text(encoding="utf-8"))
        assert len(dict(pairs)) == len(pairs)
        summary = self.summary_file.read_text(encoding="utf-8")
        return Ended(finished.returncode, finished.stdout, read_log(finished.stdout), dict(pairs), summary)
