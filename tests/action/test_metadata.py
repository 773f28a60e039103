"""action.yml, its types, the code, the flags and the documentation name the same inputs and outputs."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import yaml

from holodeck_action.commands.command_line import run
from holodeck_action.commands.compare_judging import JUDGING
from holodeck_action.commands.step_inputs import OPTIONS
from holodeck_action.run.options.action_inputs import ACTION_INPUTS, DECLARED, INPUTS, PUBLISH_INPUTS
from scripts import build_action
from tests.action.step import ROOT, action
from tests.commands.project import Project

ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
WRITTEN = (ROOT / "action-types.yml").read_text(encoding="utf-8")
TYPES: dict[str, Any] = yaml.safe_load(WRITTEN)
PAGE = (ROOT / "docs" / "action.md").read_text(encoding="utf-8")
PUBLISHED = {item.name for item in PUBLISH_INPUTS}
"""Inputs that say where the verdict is shown; the command line runs without."""


def _table(heading: str) -> dict[str, list[str]]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(?:--)?([\w-]+)` \| (.*) \|$", section, re.M)
    known = {item.name for item in INPUTS}
    named = ((name if name in known else name.removeprefix("no-"), cells) for name, cells in rows)
    return {name: [cell.strip().strip("`") for cell in cells.split(" | ")] for name, cells in named}


@pytest.mark.needs
def test_the_code_reads_what_action_yml_declares() -> None:
    declared = action()["inputs"]
    assert list(declared) == [item.name for item in ACTION_INPUTS]
    defaults = {name: described.get("default", "") for name, described in declared.items()}
    assert defaults.pop("github-token") == "${{ github.token }}"
    assert defaults == {item.name: item.default for item in ACTION_INPUTS if item.name != "github-token"}
    assert all(described["description"] for described in (*declared.values(), *action()["outputs"].values()))


def test_every_setting_of_a_step_is_a_flag_and_every_flag_a_setting(project: Project) -> None:
    text = project.run("run", "--help-all").stdout
    flags = set(re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.M)) - {"help", "help-all"}
    typed = {item.short if len(item.short) > 1 else item.name for item in DECLARED if item.of == "terminal"}
    assert flags - typed == {item.name for item in INPUTS} - {"suite"} - PUBLISHED
    assert flags >= typed
    text = project.run("publish", "--help").stdout
    flags = set(re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.M)) - {"help"}
    assert flags - {"repository", "pull-request", "sha", "to"} == (
        PUBLISHED - {"summary", "github-token", "publish", "merge", "results"} | {"template", "fail-on"}
    )


def test_an_input_sets_what_its_flag_sets() -> None:
    settings = {option.strip("-"): param.name for param in run.params for option in param.opts}
    for item in INPUTS:
        if item.name not in PUBLISHED:
            assert item.setting == settings["suites" if item.name == "suite" else item.name]


@pytest.mark.parametrize("kind", ["inputs", "outputs"])
def test_the_types_cover_action_yml(kind: str) -> None:
    assert list(TYPES[kind]) == list(action()[kind])


@pytest.mark.needs
def test_action_yml_and_the_types_are_as_built() -> None:
    """`make fields` writes their inputs."""
    assert build_action.action_text(ACTION, PAGE) == ACTION
    assert build_action.types_text(WRITTEN) == WRITTEN


def test_the_documentation_lists_every_input_with_its_default() -> None:
    rows = _table("Inputs")
    assert list(rows) == [item.name for item in ACTION_INPUTS]
    documented = {name: cells[0].removeprefix("|").strip() for name, cells in rows.items()}
    assert documented.pop("github-token") == "the job's"
    for item in ACTION_INPUTS:
        if item.name != "github-token":
            assert documented[item.name].startswith(item.default), item.name


@pytest.mark.needs
def test_the_documentation_lists_every_option() -> None:
    run, compare = ([item.name for item in OPTIONS[command]] for command in ("run", "compare"))
    assert list(_table("Options")) == run
    assert [*_table("Compare two runs")] == [name for name in compare if name not in run]
    shared = PAGE.partition("The options are ")[2].partition(", and these:")[0]
    assert re.findall(r"`--(?:no-)?([\w-]+)`", shared) == [name for name in compare if name in run]


def test_every_option_of_a_command_is_one_of_args(project: Project) -> None:
    """`--history` of `compare` is an input; judges are for the command line."""
    text = project.run("compare", "--help").stdout
    flags = set(re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.M)) - {"help"}
    judging = {"judge", *JUDGING}
    assert judging <= flags
    assert flags - {"history"} - judging == {item.name for item in OPTIONS["compare"]} - {"summary"}
    inputs = {item.name for item in ACTION_INPUTS}
    assert {item.name for item in INPUTS} == {item.name for item in OPTIONS["run"]} - {"policy"} | inputs - {
        "command",
        "args",
    }


def test_the_runner_hands_no_input_to_the_container_as_an_argument() -> None:
    """Without `runs.args`, the input `args` is the command line (actions/runner, `ContainerActionHandler.RunAsync`)."""
    runs, inputs = action()["runs"], {"args": "--min-pass-rate 0.9"}
    arguments = " ".join(runs["args"]) if runs.get("args") is not None else inputs["args"]
    assert arguments == ""


def test_the_documentation_lists_every_output() -> None:
    assert list(_table("Outputs")) == list(action()["outputs"])


def test_action_yml_fits_githubs_schema() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml"]
    finished = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout
