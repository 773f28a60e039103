"""Our workflows and those to copy are valid, pinned, unprivileged and the same in the documentation."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from holodeck_action.commands.step_inputs import read_step_inputs
from holodeck_action.text.redaction import Redactor
from tests.workflows.files import ACTION, EXAMPLES, OWN, ROOT, SHOP, jobs, load, steps

ALL = [*OWN, *EXAMPLES, *SHOP]
WRITTEN = ROOT / "holodeck_action" / "starter" / "evaluate.yml"
CONFIG = ROOT / ".github" / "zizmor.yml"
DEPENDABOT = ROOT / ".github" / "dependabot.yml"
PINS = yaml.safe_load((ROOT / "tests" / "workflows" / "pins.yaml").read_text(encoding="utf-8"))
PAGES = ("github.md", "baseline.md", "race.md", "traces.md", "results-of-others.md", "other-reports.md")
PAGE = "\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in PAGES)
_OTHERS = ("promptfoo", "inspect", "plugin-eval", "deepeval")
NEEDED = {"attest": ("report_formats",), "race": ("race",), "traces": ("traces",)} | dict.fromkeys(
    _OTHERS, ("results",)
)
"""The extensions that a workflow needs."""
EVALUATES = {"contents": "read", "pull-requests": "write", "checks": "write"}

each = pytest.mark.parametrize("file", ALL, ids=lambda file: str(file.relative_to(ROOT)))


def _check(program: str, *arguments: str | Path) -> None:
    command = [str(Path(sys.executable).with_name(program)), *map(str, arguments)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.full
def test_they_fit_githubs_schemas() -> None:
    _check("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *ALL)
    _check("check-jsonschema", "--builtin-schema", "vendor.dependabot", DEPENDABOT)


def test_they_are_safe() -> None:
    actions = (ROOT / "action.yml", ROOT / "runner" / "action.yml")
    _check("zizmor", "--offline", "--strict-collection", "--config", CONFIG, *ALL, DEPENDABOT, *actions)


def test_everything_they_use_is_pinned_to_the_table() -> None:
    used = set()
    for file in (*ALL, WRITTEN):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            if "uses:" not in line:
                continue
            if file in OWN and line.split()[-1] in ("./", *(f"./.github/workflows/{own.name}" for own in OWN)):
                continue
            if file in (*EXAMPLES, *SHOP) and line.endswith(f"uses: {ACTION}@v1"):
                continue
            if file == WRITTEN and line.endswith(f"uses: {ACTION}@v1 # zizmor: ignore[unpinned-uses]"):
                continue
            found = re.search(r"uses: ([\w.-]+/[\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$", line)
            assert found, f"{file.name}:{number}: {line.strip()}"
            assert PINS[found[1]] == {"version": found[3], "commit": found[2]}, f"{file.name}:{number}"
            used.add(found[1])
    assert used == set(PINS)


def test_dependabot_watches_everything_that_is_pinned() -> None:
    updates = yaml.safe_load(DEPENDABOT.read_text(encoding="utf-8"))["updates"]
    watched: dict[str, list[str]] = {}
    for entry in updates:
        folders = entry.get("directories", [entry.get("directory")])
        watched.setdefault(entry["package-ecosystem"], []).extend(folders)
    assert watched == {
        "github-actions": ["/", *(f"/{file.relative_to(ROOT).parent}" for file in (EXAMPLES[0], SHOP[0], WRITTEN))],
        "uv": ["/"],
        "npm": ["/viewer", "/scripts/workflows"],
        "docker": ["/"],
    }
    # It reads no name out of an argument: what it changes is to be the base that is built on.
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    [watched_base] = [line.split()[1] for line in lines if line.startswith("FROM ") and ":" in line]
    [base] = [line.removeprefix("ARG BASE=") for line in lines if line.startswith("ARG BASE=")]
    assert watched_base == base, "enter the version that Dependabot found in ARG BASE, too"


def test_zizmor_and_githubs_parser_run_in_ci() -> None:
    commands = [step.get("run") for step in steps(ROOT / ".github" / "workflows" / "ci.yml")]
    assert "make audit" in commands
    assert "make workflows-test" in commands
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\naudit:")[2].partition("\n\n")[0]
    for part in (
        "zizmor",
        ".github ",
        "examples/workflows/*.yml",
        "examples/repository/shop/.github",
        "holodeck_action/starter/evaluate.yml",
        " action.yml",
        "runner/action.yml",
    ):
        assert part in recipe


@each
def test_no_job_may_do_more_than_it_says(file: Path) -> None:
    workflow = load(file)
    assert workflow["permissions"] == {}
    assert workflow["concurrency"]["group"]
    for name, job in workflow["jobs"].items():
        assert isinstance(job["permissions"], dict), name
        assert "uses" in job or job["timeout-minutes"] <= 120, name
    for step in steps(file):
        if str(step.get("uses")).startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize(
    ("name", "permissions"),
    [
        ("attest.yml", {"contents": "read", "checks": "write", "id-token": "write", "attestations": "write"}),
        ("evaluate-fork.yml", {"contents": "read"}),
        ("publish-fork.yml", {**EVALUATES, "actions": "read"}),
        ("baseline-file.yml", EVALUATES),
        ("baseline-merge-base.yml", EVALUATES),
        ("comment-command.yml", EVALUATES),
        ("promptfoo.yml", EVALUATES),
        ("inspect.yml", EVALUATES),
        ("plugin-eval.yml", EVALUATES),
        ("deepeval.yml", EVALUATES),
        ("race.yml", {"contents": "read", "pull-requests": "write"}),
        ("traces.yml", {"contents": "read", "issues": "write"}),
    ],
)
def test_an_example_asks_for_what_its_job_needs(name: str, permissions: dict[str, str]) -> None:
    [job] = jobs(ROOT / "examples" / "workflows" / name).values()
    assert job["permissions"] == permissions


@pytest.mark.parametrize("name", ["shards.yml", "matrix.yml"])
def test_only_the_last_job_publishes(name: str) -> None:
    permissions = [job["permissions"] for job in jobs(ROOT / "examples" / "workflows" / name).values()]
    assert permissions == [{"contents": "read"}, EVALUATES]


def test_only_runs_of_the_default_branch_may_write_results() -> None:
    found = jobs(ROOT / "examples" / "workflows" / "baseline-branch.yml")
    assert found["compare"]["permissions"] == EVALUATES
    assert found["record"]["permissions"] == {"contents": "write", "checks": "write"}
    assert {name: job["if"] for name, job in found.items()} == {
        "compare": "github.event_name == 'pull_request'",
        "record": "github.event_name == 'push'",
    }


@each
def test_no_expression_stands_in_a_script(file: Path) -> None:
    assert not [step["run"] for step in steps(file) if "${{" in step.get("run", "")]


@each
def test_scripts_are_sound(file: Path, tmp_path: Path) -> None:
    for number, step in enumerate(steps(file)):
        if "run" in step:
            script = tmp_path / f"{number}.sh"
            script.write_text(f"#!/bin/bash\n{step['run']}\n", encoding="utf-8")
            checks = [["bash", "-n"]] + ([["shellcheck"]] if shutil.which("shellcheck") else [])
            for check in checks:
                finished = subprocess.run([*check, str(script)], capture_output=True, text=True, check=False)
                assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=pytest.mark.needs(*NEEDED[file.stem]) if file.stem in NEEDED else ()) for file in ALL],
    ids=lambda file: str(file.relative_to(ROOT)),
)
def test_the_action_takes_the_inputs_it_is_given(file: Path) -> None:
    declared = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    for step in steps(file):
        if step.get("uses") in ("./", f"{ACTION}@v1"):
            # YAML's true and off reach the runner as other texts than they are written as.
            assert all(isinstance(value, str) for value in step["with"].values()), step
            assert not step["with"].keys() - declared.keys()
            given = {name: value.replace("${{ matrix.shard }}", "1") for name, value in step["with"].items()}
            # An expression that chooses one of two words.
            given = {name: re.sub(r"\$\{\{ .* \|\| '(\w+)' \}\}", r"\1", value) for name, value in given.items()}
            read_step_inputs({f"INPUT_{name.upper()}": value for name, value in given.items()}, Redactor(()))


def test_the_second_stage_reads_what_the_first_one_uploads() -> None:
    first, second = (ROOT / "examples" / "workflows" / f"{name}-fork.yml" for name in ("evaluate", "publish"))
    assert load(second)["on"]["workflow_run"]["workflows"] == [load(first)["name"]]
    _, evaluated, uploaded = (step["with"] for step in steps(first))
    _, downloaded, published = (step["with"] for step in steps(second))
    assert uploaded["path"] == evaluated["output-dir"]
    assert downloaded["name"] == uploaded["name"]
    assert published["publish"] == downloaded["path"]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.name))
def test_the_documentation_shows_the_file(file: Path) -> None:
    shown = f"`examples/workflows/{file.name}`"
    assert shown in PAGE
    assert f"```yaml fragment\n{file.read_text(encoding='utf-8')}```\n" in PAGE, f"copy {file.name} into docs/github.md"


def test_the_documentation_shows_no_other_workflow() -> None:
    blocks = re.findall(r"^```yaml fragment\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    whole = {block for block in blocks if re.search(r"^jobs:", block, re.MULTILINE)}
    assert whole == {file.read_text(encoding="utf-8") for file in (*EXAMPLES, WRITTEN)}


@pytest.mark.parametrize("page", ["README.md", "docs/action.md", "docs/getting-started.md", "docs/github.md"])
def test_every_page_for_beginners_shows_the_workflow_that_init_writes(page: str) -> None:
    shown = re.findall(
        r"^```yaml(?: fragment)?\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert WRITTEN.read_text(encoding="utf-8") in shown
