"""The metric of docs/extending.md works from a package of its own, and as a file of ours."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.commands.project import Project

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "metric"
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "language"), [("starts_with.py", "python"), ("pyproject.toml", "toml"), ("agent.yaml", "yaml fragment")]
)
def test_the_page_shows_the_files(file: str, language: str) -> None:
    assert f"```{language}\n{(EXAMPLE / file).read_text(encoding='utf-8')}```\n" in PAGE


def _installed(folder: Path) -> Path:
    """Put the example where an installation of its wheel would put it."""
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = folder / f"{declared['name'].replace('-', '_')}-{declared['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {declared['name']}\nVersion: {declared['version']}\n"
    )
    [(group, entries)] = declared["entry-points"].items()
    (about / "entry_points.txt").write_text(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()))
    shutil.copy(EXAMPLE / "starts_with.py", folder)
    return folder


def _ours(folder: Path) -> Path:
    """Put the example among our own metrics, in a copy of the package."""
    shutil.copytree(ROOT / "holodeck_action", folder / "holodeck_action")
    shutil.copytree(ROOT / "templates", folder / "templates")
    shutil.copy(EXAMPLE / "starts_with.py", folder / "holodeck_action" / "metrics")
    return folder


@pytest.mark.parametrize("place", [_installed, _ours])
def test_the_metric_of_the_example_works_like_ours(project: Project, tmp_path: Path, place: object) -> None:
    assert callable(place)
    path = str(place(tmp_path / "site"))
    for file in ("agent.yaml", "holodeck-action.yaml", "answers.jsonl"):
        shutil.copy(EXAMPLE / file, project.folder)
    finished = project.run("run", "-o", "out", PYTHONPATH=path)
    assert finished.code == 0, finished.stdout + finished.stderr
    project.write("answers.jsonl", '{"case": "by name", "response": "Good morning!"}\n')
    finished = project.run("run", "-o", "out", PYTHONPATH=path)
    assert finished.code == 1, finished.stdout + finished.stderr
    assert "the answer does not start with the expected text" in finished.stdout
    schema = json.loads(project.run("schema", "agent", PYTHONPATH=path).stdout)
    described = schema["$defs"]["StartsWithMetric"]["properties"]["case_insensitive"]
    assert described["description"] == "Compare case-folded text."
    report = json.loads(project.run("report", "out/results.json", "--format", "json", PYTHONPATH=path).stdout)
    assert [metric["name"] for metric in report["metrics"]] == ["starts_with"]
    suite = (EXAMPLE / "agent.yaml").read_text(encoding="utf-8")
    project.write("agent.yaml", suite.replace("case_insensitive", "case_insensitiv"))
    finished = project.run("validate", PYTHONPATH=path)
    assert finished.code == 2
    assert 'did you mean "case_insensitive"' in finished.stderr


def test_without_the_package_its_type_is_unknown(project: Project) -> None:
    shutil.copy(EXAMPLE / "agent.yaml", project.folder)
    finished = project.run("validate")
    assert finished.code == 2
    assert '"starts_with" is not allowed' in finished.stderr
