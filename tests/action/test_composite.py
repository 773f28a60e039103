"""The Action without a container: the same inputs and outputs, on the job's own Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from scripts.build_action import runner_action_text
from tests.action.composite import FOLDER, composite, path_with, run
from tests.action.step import ROOT, action
from tests.commands.project import Project
from tests.workers.installing import NO_INDEX, bare_python, interpreters, uv, wheel

TOKEN = f"ghs_{uuid.uuid4().hex}"
"""Other processes of the tests look for their own."""
UV = """#!/bin/sh
# uv, except that what it would download for the program is that of the tests.
if [ "$1" != sync ]; then exec {uv} "$@"; fi
env > "{seen}"
for argument; do echo "$argument"; done > "{seen}.arguments"
echo "$UV_PROJECT_ENVIRONMENT" "$@" >> "{seen}.syncs"
test -z "$FAIL_EXTRAS" || case "$*" in *=judges*) echo "no such index" >&2; exit 7;; esac
mkdir -p "$(dirname "$UV_PROJECT_ENVIRONMENT")"
test -e "$UV_PROJECT_ENVIRONMENT" || ln -s "{environment}" "$UV_PROJECT_ENVIRONMENT"
"""
AGENT = """
import os, sys
from pathlib import Path
import goods

def everything():
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if b"%s" in place.read_bytes():
                yield place.with_name("cmdline").read_bytes().decode()
        except OSError:
            pass

def answer(messages):
    seen = [*everything(), *(name for name, value in os.environ.items() if "%s" in value)]
    return f"{goods.WORDS} {seen or 'no token'} {sys.version_info[1]}"
"""


@pytest.fixture
def workspace(project: Project) -> Project:
    folder = project.folder / "workspace"
    folder.mkdir()
    return Project(folder)


def environ(project: Project, path: str) -> dict[str, str]:
    """The variables of a job on a machine with some Python of its own."""
    return {
        "PATH": path,
        "HOME": str(project.folder / "home"),
        "RUNNER_TEMP": str(project.folder),
        "UV_OFFLINE": "1",
        "INPUT_NOT-OURS": "x",
        "PYTHONPATH": str(project.folder / "of-the-job"),
    }


def with_program(project: Project, python: Path) -> str:
    """Return a PATH with the Python of the job, and uv."""
    text = UV.format(uv=uv(), seen=project.folder / "seen", environment=Path(sys.executable).parents[1])
    return path_with(python.parent, ("uv", text))


def suite(workspace: Project, expected: str) -> None:
    workspace.suite([{"name": "a", "input": "?", "ground_truth": expected}])
    workspace.write("own.py", AGENT.replace("%s", TOKEN))
    workspace.policy(target="python:own:answer")


def test_inputs_and_outputs_are_those_of_the_action() -> None:
    """`make fields` writes it."""
    text = (FOLDER / "action.yml").read_text(encoding="utf-8")
    assert text == runner_action_text((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert composite()["inputs"] == action()["inputs"]
    outputs = {name: {"description": told["description"]} for name, told in composite()["outputs"].items()}
    assert outputs == action()["outputs"]


@pytest.mark.full
def test_it_runs_on_the_python_of_the_job(project: Project, workspace: Project) -> None:
    """With the packages that are installed there, whatever the version; a token is shown to nothing of it."""
    (oldest, interpreter), *_ = interpreters().items()
    python = bare_python(project.folder / "job", interpreter)
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    (packages / "goods.py").write_text("WORDS = 'of the job'\n")
    suite(workspace, f"of the job no token {oldest.partition('.')[2]}")
    job = environ(project, with_program(project, python))
    ended = run(workspace.folder, {"output-dir": "results"}, job, TOKEN)
    assert ended.code == 0, ended.log
    assert (ended.outputs["verdict"], ended.outputs["passed"], ended.outputs["exit-code"]) == ("passed", "1", "0")
    assert ended.outputs["results-path"] == "results/results.json"
    assert (workspace.folder / ended.outputs["report-path"]).is_file()
    assert TOKEN not in (project.folder / "seen").read_text()
    changed = run(workspace.folder, {"target": "recorded:gone.jsonl"}, job, TOKEN)
    assert (changed.code, changed.outputs["verdict"]) == (2, "invalid")


@pytest.mark.full
def test_packages_are_installed_for_it(project: Project, workspace: Project) -> None:
    (oldest, interpreter), *_ = interpreters().items()
    python = bare_python(project.folder / "job", interpreter)
    wheel(workspace.folder / "wheels", "goods", "1.0", "WORDS = 'installed'\n")
    workspace.write("packages.txt", f"{NO_INDEX}goods\n")
    suite(workspace, f"installed no token {oldest.partition('.')[2]}")
    job = environ(project, with_program(project, python))
    for installs in (True, False):
        ended = run(workspace.folder, {"args": "--requirements packages.txt"}, job, TOKEN)
        assert ended.code == 0, ended.log
        assert ("note: installing packages.txt" in ended.log) == installs


@pytest.mark.full
def test_uv_understands_how_it_is_called(project: Project, workspace: Project) -> None:
    """Real uv finds that nothing is missing but what the tests alone do without."""
    python = bare_python(project.folder / "job")
    suite(workspace, "")
    run(workspace.folder, {}, environ(project, with_program(project, python)), TOKEN)
    arguments = (project.folder / "seen.arguments").read_text().splitlines()
    assert {"--frozen", "--no-dev"} <= set(arguments)
    home = {"HOME": str(project.folder), "UV_PROJECT_ENVIRONMENT": str(Path(sys.executable).parents[1])}
    planned = subprocess.run(
        [uv(), *(each for each in arguments if each != "--quiet"), "--dry-run", "--offline"],
        env={"PATH": os.environ["PATH"], **home},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert planned.returncode == 0, planned.stderr
    assert "Would install" not in planned.stderr


def test_a_program_that_cannot_be_installed_ends_the_step(project: Project, workspace: Project) -> None:
    """By the machine's uv; tests/action/test_hostile_checkout.py has a machine without one."""
    suite(workspace, "")
    python = bare_python(project.folder / "job")
    path = path_with(python.parent, ("uv", "#!/bin/sh\necho no network >&2\nexit 3\n"))
    ended = run(workspace.folder, {}, environ(project, path), TOKEN)
    assert ended.code == 2
    assert "::error title=holodeck-action::the program's environment cannot be made: uv ended with 3" in ended.log
    assert (ended.outputs["verdict"], ended.outputs["exit-code"]) == ("invalid", "2")


def test_windows_is_told_what_it_needs(project: Project, workspace: Project) -> None:
    ended = run(workspace.folder, {}, environ(project, os.environ["PATH"]), TOKEN, system="Windows")
    assert ended.code == 2
    assert "::error title=holodeck-action::This action needs Linux or macOS" in ended.log


@pytest.mark.parametrize("check", [("check_jsonschema", "--builtin-schema", "vendor.github-actions")])
def test_it_fits_githubs_schema(check: tuple[str, ...]) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", *check, str(FOLDER / "action.yml")], capture_output=True, text=True, timeout=60
    )
    assert finished.returncode == 0, finished.stdout


@pytest.mark.full
def test_inputs_reach_it_as_they_are(project: Project, workspace: Project) -> None:
    """Whatever is in them: quotes, line ends, what a shell or a template would run."""
    python = bare_python(project.folder / "job")
    name = "a \"quoted\" $(touch gone) `touch gone` ${{ x }} 'name'"
    workspace.suite([{"name": name, "input": "?", "ground_truth": "1"}, {"name": "b", "input": "?"}])
    workspace.answers([{"case": name, "response": "1"}, {"case": "b", "response": ""}])
    workspace.policy(target="recorded:answers.jsonl")
    job = environ(project, with_program(project, python))
    ended = run(workspace.folder, {"case": name}, job, TOKEN)
    assert (ended.code, ended.outputs["total"]) == (0, "1"), ended.log
    assert json.loads((workspace.folder / ended.outputs["results-path"]).read_text())["cases"][0]["name"] == name
    assert not [*workspace.folder.rglob("gone")]


def syncs(project: Project) -> list[tuple[str, list[str]]]:
    """The environments that were installed, in order, and their extras."""
    lines = (project.folder / "seen.syncs").read_text().splitlines()
    return [
        (line.split()[0], sorted(each.removeprefix("--extra=") for each in line.split() if each.startswith("--extra=")))
        for line in lines
    ]


@pytest.mark.full
@pytest.mark.needs("deepeval")
def test_only_what_the_suite_needs_is_installed(project: Project, workspace: Project) -> None:
    """Each set of extras has its own environment; an environment that another job has is left alone."""
    python = bare_python(project.folder / "job")
    workspace.numbered(1)
    job = environ(project, with_program(project, python))
    ended = run(workspace.folder, {}, job, TOKEN)
    assert (ended.code, ended.outputs["passed"]) == (0, "1"), ended.log
    ((base, extras),) = syncs(project)
    assert extras == ["github"]
    assert "needs the extra" not in ended.log

    geval = {"type": "geval", "name": "Polite", "criteria": "The answer is polite.", "threshold": 0.5}
    case = {"name": "case 0", "input": "?", "ground_truth": "0"}
    workspace.suite([case], [{"type": "standard", "metric": "equality"}, geval])
    ended = run(workspace.folder, {"args": "--dry-run"}, job | {"OPENAI_API_KEY": "k"}, TOKEN)
    assert ended.code == 0, ended.log
    assert ended.log.count("note: needs the extra: judges (metric geval)\n") == 1
    (_, (judged, extras)) = syncs(project)
    assert extras == ["github", "judges"]
    assert judged != base
    assert "planned" in ended.log or "calls" in ended.log

    # Only who parses the suite finds the metric.
    suite = workspace.folder / "agent.yaml"
    suite.write_text(suite.read_text().replace('"geval"', '"g\\u0065val"'))
    ended = run(workspace.folder, {"args": "--dry-run"}, job | {"OPENAI_API_KEY": "k"}, TOKEN)
    assert ended.code == 0, ended.log
    assert ended.log.count("note: needs the extra: judges (metric Polite)\n") == 1
    assert syncs(project)[2:] == [(base, ["github"]), (judged, ["github", "judges"])]

    failed = run(workspace.folder, {"args": "--dry-run"}, job | {"OPENAI_API_KEY": "k", "FAIL_EXTRAS": "1"}, TOKEN)
    assert (failed.code, failed.outputs["verdict"]) == (2, "invalid")
    assert "the extras github, judges cannot be installed: no such index" in failed.log, failed.log


@pytest.mark.full
@pytest.mark.needs("deepeval", "mcp")
@pytest.mark.parametrize("example", ["support", "financial", "retrieval"])
def test_an_example_gives_the_record_of_the_command_line(project: Project, workspace: Project, example: str) -> None:
    python = bare_python(project.folder / "job")
    shutil.copytree(ROOT / "examples" / example, workspace.folder, dirs_exist_ok=True)
    here = Project(project.folder / "here")
    shutil.copytree(ROOT / "examples" / example, here.folder)
    calls = {"replay": "cassette"} if (here.folder / "cassette").is_dir() else {}
    ran = here.run("run", "-o", "out", *(each for name in calls for each in (f"--{name}", calls[name])))
    ended = run(
        workspace.folder, {"output-dir": "out", **calls}, environ(project, with_program(project, python)), TOKEN
    )
    assert ended.code == ran.code, ended.log
    mine, theirs = (canonical_json(read_record(each.folder / "out" / "results.json")) for each in (workspace, here))
    assert mine == theirs
