"""Files that other programs wrote, in a project of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Finished, Project

DATA = Path(__file__).with_name("data")


class Shelf:
    """A project that receives files of the real programs."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def take(self, name: str, to: str = "") -> str:
        """Copy a stored file; return its name in the project."""
        to = to or Path(name).name
        shutil.copy(DATA / name, self.project.folder / to)
        return to

    def change(self, name: str, **changes: Any) -> str:
        """Take a JSON file with other values at its top level."""
        value = json.loads((DATA / name).read_text(encoding="utf-8"))
        for key, changed in changes.items():
            value[key] = changed(value[key]) if callable(changed) else changed
        self.project.write("changed.json", json.dumps(value))
        return "changed.json"

    def gate(self, *arguments: str, **environ: str) -> Finished:
        """Decide, with the results in `out`."""
        return self.project.run("gate", *arguments, "-o", "out", **environ)

    def outcomes(self, folder: str = "out") -> dict[str, str]:
        """The judged cases by name."""
        verdict = json.loads((self.project.folder / folder / "verdict.json").read_text(encoding="utf-8"))
        record = json.loads((self.project.folder / folder / "results.json").read_text(encoding="utf-8"))
        names = {case["id"]: case["name"] for case in record["cases"]}
        return {names[case["id"]]: case["judged"] for case in verdict["cases"]}


@pytest.fixture
def shelf(project: Project) -> Shelf:
    return Shelf(project)
