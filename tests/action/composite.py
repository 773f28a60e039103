"""The composite action as the runner runs it: its steps in order, with their expressions filled in."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.action.runner import read_pairs
from tests.action.step import ROOT

FOLDER = ROOT / "runner"


def composite() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "action.yml").read_text(encoding="utf-8"))
    return loaded


@dataclass(frozen=True)
class Ended:
    """What a workflow sees of an ended composite action."""

    code: int
    log: str
    outputs: dict[str, str]


def run(
    workspace: Path,
    inputs: Mapping[str, str],
    environ: Mapping[str, str],
    token: str,
    system: str = "Linux",
    timeout_s: float = 100,
    folder: Path = FOLDER,
) -> Ended:
    """Run the steps until one fails.

    Args:
        workspace: of the job.
        inputs: those that are given.
        environ: the job's variables.
        token: `github.token`.
        system: `runner.os`.
        timeout_s: seconds that a step may take.
        folder: of the action.
    """
    action = composite()
    given = {name: told.get("default", "") for name, told in action["inputs"].items()} | dict(inputs)
    assert given.keys() == action["inputs"].keys()
    given = {name: value.replace("${{ github.token }}", token) for name, value in given.items()}
    values = {"toJSON(inputs)": json.dumps(given, indent=2), "runner.os": system}
    log, code, outputs = "", 0, {}
    for number, step in enumerate(action["runs"]["steps"]):
        if not _holds(step.get("if"), values):
            continue
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        file = workspace.with_name(f"{workspace.name}-output-{number}")
        file.touch()
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=workspace,
            env={
                **environ,
                "GITHUB_ACTIONS": "true",
                "GITHUB_WORKSPACE": str(workspace),
                "GITHUB_ACTION_PATH": str(folder),
                "GITHUB_OUTPUT": str(file),
                **{name: _filled(value, values) for name, value in step.get("env", {}).items()},
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        log += ended.stdout
        found = dict(read_pairs(file.read_text(encoding="utf-8")))
        values |= {f"steps.{step.get('id')}.outputs.{name}": value for name, value in found.items()}
        if ended.returncode:
            code = ended.returncode
            break
    outputs = {name: _filled(told["value"], values) for name, told in action["outputs"].items()}
    return Ended(code, log, outputs)


def path_with(folder: Path, *scripts: tuple[str, str]) -> str:
    """Return a PATH on which programs of a folder come first, after these are written there."""
    folder.mkdir(exist_ok=True)
    for name, text in scripts:
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values.get(found[1], ""), text)


def _holds(condition: str | None, values: Mapping[str, str]) -> bool:
    if condition is None:
        return True
    name, wanted = re.fullmatch(r"([\w.]+) == '(\w+)'", condition).groups()  # type: ignore[union-attr]
    return values[name] == wanted
