"""The extras that words of suites name are those that the loaded suites need."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from holodeck_action.run.environments.extra_needs import expected_extras
from holodeck_action.seam import registry
from tests.commands.project import Project
from tests.tables import walk

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.relative_to(ROOT / "examples") for path in ROOT.glob("examples/**/agent.yaml"))


def extras(workspace: Path, *suites: str) -> set[str]:
    return {need.extra for need in expected_extras(str(workspace), suites)}


@pytest.mark.full
@walk("suite", EXAMPLES)
def test_an_example_needs_what_is_expected(suite: Path) -> None:
    place = ROOT / "examples" / suite
    ended = Project(place.parent).run("validate", place.name)
    needed = re.search(r"needs the extras?: (.*)", ended.stdout)
    # What is invalid here is not loaded.
    if ended.code == 0:
        assert extras(ROOT / "examples", str(suite)) == set(re.findall(r"(\w+) \(", needed[1]) if needed else ())


@pytest.mark.needs("deepeval", "mcp")
def test_each_declared_word_names_its_extra(project: Project) -> None:
    """Whatever an extension declares, in JSON and YAML, in the suite or beside it."""
    named = {
        **{f"type: {tool.type}": tool.extra for tool in registry.tools().values() if tool.extra},
        **{f"file: cases{suffix}": table.extra for suffix, table in registry.tables().items() if table.extra},
        **{
            f'"metric": "{metric.name}"' if metric.name else f"- type: '{metric.type}'": library.extra
            for extension in registry.own_extensions()
            for metric in extension.metrics
            for library in extension.libraries
        },
    }
    assert len(set(named.values())) >= 2
    folder = project.folder / "suites" / "one"
    folder.mkdir(parents=True)
    (folder / "agent.yaml").write_text("name: one")
    for text, extra in named.items():
        (folder / "policy.yml").write_text(f"x: [y]\n{text}\n")
        for suite in ("suites/one/agent.yaml", "suites/one", "suites/**/agent.yaml"):
            assert extras(project.folder, suite) == {extra}, (text, suite)
    assert extras(project.folder, "elsewhere", "a\0b", "/dev/null") == set()


def test_what_is_no_file_is_left_to_the_program(project: Project) -> None:
    (project.folder / "agent.yaml").write_text("type: nothing")
    os.mkfifo(project.folder / "pipe.yaml")
    (project.folder / "gone.yaml").symlink_to("nowhere")
    (project.folder / "binary.yaml").write_bytes(b"\xff\xfe type: mcp")
    assert extras(project.folder, "agent.yaml") <= {"agents"}
