"""The workflows of this repository and those to copy, and their steps as the runner runs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
OWN = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EXAMPLES = sorted((ROOT / "examples" / "workflows").glob("*.yml"))
SHOP = sorted((ROOT / "examples" / "repository" / "shop" / ".github" / "workflows").glob("*.yml"))
ACTION = "holodeck-action/holodeck-action"


def load(file: Path) -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true; GitHub does not.
    loaded: dict[Any, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    loaded["on"] = loaded.pop(True)
    return loaded


def jobs(file: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = load(file)["jobs"]
    return found


def steps(file: Path) -> Iterator[dict[str, Any]]:
    for job in jobs(file).values():
        yield from job.get("steps", ())


def script(file: Path, *names: str) -> str:
    """The script of the step with a name or id."""
    [found] = [step["run"] for step in steps(file) if {step.get("name"), step.get("id")} & set(names)]
    return str(found)


def bash(text: str, folder: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a script as the runner does for `shell: bash`."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **environ}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
