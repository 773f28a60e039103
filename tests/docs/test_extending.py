"""The metric of docs/extending.md works from a package of its own, and as a file of ours."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Finished, Project
from tests.docs.pages import blocks
from tests.tables import walk

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "metric"
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


@walk(
    ("file", "language"),
    [
        ("metric/opens_with.py", "python"),
        ("metric/pyproject.toml", "toml"),
        ("metric/agent.yaml", "yaml fragment"),
        ("extension/pyproject.toml", "toml"),
        ("extension/hello/manifest.py", "python"),
        ("extension/hello/command.py", "python"),
        ("extension/hello/cases.py", "python"),
    ],
)
def test_the_page_shows_the_files(file: str, language: str) -> None:
    assert f"```{language}\n{(EXAMPLE.parent / file).read_text(encoding='utf-8')}```\n" in PAGE


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
    shutil.copy(EXAMPLE / "opens_with.py", folder)
    return folder


def _ours(folder: Path) -> Path:
    """Put the example among our own metrics, in a copy of the package."""
    shutil.copytree(ROOT / "holodeck_action", folder / "holodeck_action")
    shutil.copytree(ROOT / "templates", folder / "templates")
    shutil.copy(EXAMPLE / "opens_with.py", folder / "holodeck_action" / "metrics")
    return folder


@pytest.mark.full
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
    described = schema["$defs"]["OpensWithMetric"]["properties"]["case_insensitive"]
    assert described["description"] == "Compare case-folded text."
    report = json.loads(project.run("report", "out/results.json", "--format", "json", PYTHONPATH=path).stdout)
    assert [metric["name"] for metric in report["metrics"]] == ["opens_with"]
    suite = (EXAMPLE / "agent.yaml").read_text(encoding="utf-8")
    project.write("agent.yaml", suite.replace("case_insensitive", "case_insensitiv"))
    finished = project.run("validate", PYTHONPATH=path)
    assert finished.code == 2
    assert 'did you mean "case_insensitive"' in finished.stderr


class _With(Project):
    """A project whose runs find the packages of a folder."""

    def __init__(self, folder: Path, site: Path) -> None:
        super().__init__(folder)
        self._site = site

    def run(self, *arguments: str, **environ: str) -> Finished:
        return super().run(*arguments, PYTHONPATH=str(self._site), **environ)


@pytest.mark.full
def test_the_test_of_the_page_passes_and_can_fail(tmp_path: Path) -> None:
    [written] = [block for block in blocks(ROOT / "docs" / "extending.md") if "def test_opens_with" in block.text]
    defined: dict[str, Any] = {}
    exec(written.text, defined)
    test = defined["test_opens_with"]
    [cases] = [mark.args[1] for mark in test.pytestmark if mark.name == "parametrize"]
    site = _installed(tmp_path / "site")
    for number, (settings, response, code) in enumerate(cases):
        test(_With(tmp_path / str(number), site), settings, response, code)
    # Each of the two exit codes is noticed where the other one is expected.
    for settings, response, code in {case[2]: case for case in cases}.values():
        with pytest.raises(AssertionError):
            test(_With(tmp_path / f"not {code}", site), settings, response, 1 - code)


def test_without_the_package_its_type_is_unknown(project: Project) -> None:
    shutil.copy(EXAMPLE / "agent.yaml", project.folder)
    finished = project.run("validate")
    assert finished.code == 2
    assert '"opens_with" is not allowed' in finished.stderr
