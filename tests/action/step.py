"""The step with the runner's variables and files: in this process, or in one of its own as the runner starts it."""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from holodeck_action.action import main
from tests.action.runner import Command, Log, read_log, read_pairs
from tests.commands.forked import Forked, to_bytes
from tests.commands.project import Project

ROOT = Path(__file__).parents[2]
ENTRYPOINT = ROOT / "entrypoint.py"
_STALE = re.compile(r"\A(⚠️ \*\*(?:The|A) comment on [^\n]*\n\n)+")


def run_here(
    environ: Mapping[str, str], folder: Path, pause: Callable[[float], None] = time.sleep
) -> tuple[int, bytes, bytes]:
    """Run the step in this process, in a folder; return its exit code, its log, and its standard error."""
    output, stderr = io.BytesIO(), io.StringIO()
    log = io.TextIOWrapper(output, encoding="utf-8", newline="")
    code = main((), environ, folder, io.StringIO(), log, stderr, pause=pause)
    log.flush()
    return code, output.getvalue(), stderr.getvalue().encode()


def run_process(environ: Mapping[str, str], folder: Path, *arguments: str) -> tuple[int, bytes, bytes]:
    """Run the entry point of the image in a process of its own; return its exit code and its two streams."""
    with start_process(environ, folder, *arguments) as process:
        output, errors = process.communicate(timeout=100)
    return process.wait(), to_bytes(output), to_bytes(errors)


def start_process(environ: Mapping[str, str], folder: Path, *arguments: str) -> Forked:
    """Start the entry point of the image in a process of its own."""
    return Forked([str(ENTRYPOINT), *arguments], folder, environ, newline="")


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
        """The job summary without what it says of this run and the channels."""
        shown = _STALE.sub("", self.summary)
        return shown.partition("\n### Published\n")[0].partition("\n[All cases](")[0].strip()

    @property
    def meant(self) -> list[Command]:
        """The commands without those that only stop others."""
        return [command for command in self.log.commands if command.name != "stop-commands"]


@cache
def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return loaded


def inputs_for(settings: Mapping[str, str]) -> dict[str, str]:
    """The inputs of a step with these settings: those that are options are lines of `args`."""
    inputs = {name: value for name, value in settings.items() if name in action()["inputs"]}
    lines = [inputs.get("args", "")]
    for name, value in settings.items():
        if name not in inputs:
            lines += _lines(name, value)
    return {**inputs, "args": "\n".join(lines)} if any(lines) else inputs


def _lines(name: str, value: str) -> list[str]:
    if value not in ("true", "false"):
        return [f"--{name} {part}" for part in value.split("\n")]
    if name in ("html", "summary"):
        return [f"--{name}" if value == "true" else f"--no-{name}"]
    return [f"--{name}"] if value == "true" else []


class Step:
    """A step in a workspace; settings are given by their names with underscores."""

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
        given = inputs_for({name.replace("_", "-"): value for name, value in inputs.items()})
        variables.update({f"INPUT_{name.upper()}": value for name, value in given.items()})
        variables.update(more)
        return {name: value for name, value in variables.items() if value is not None}

    def run(
        self,
        inputs: dict[str, str] | None = None,
        cwd: Path | None = None,
        arguments: tuple[str, ...] | None = None,
        **more: Any,
    ) -> Ended:
        """Run the step in this process; with `arguments`, even `()`, run the entry point in a process of its own."""
        for file in (self.output_file, self.summary_file):
            file.touch()
        environ, folder = self.environ(inputs or {}, more), cwd or self.project.folder
        if arguments is None:
            code, output, errors = run_here(environ, folder)
        else:
            code, output, errors = run_process(environ, folder, *arguments)
        if not arguments:
            # Two streams reach the runner in no fixed order.
            assert errors == b"", errors.decode()
        assert b"Traceback" not in output + errors
        pairs = read_pairs(self.output_file.read_text(encoding="utf-8"))
        assert len(dict(pairs)) == len(pairs)
        summary = self.summary_file.read_text(encoding="utf-8")
        return Ended(code, output, read_log(output), dict(pairs), summary)
