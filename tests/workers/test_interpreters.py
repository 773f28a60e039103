"""Code of a suite under the project's own Python, which may be older than ours and has none of our packages."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project, evaluations
from tests.workers.installing import NO_INDEX, bare_python, interpreters, wheel, with_uv

AGENT = """
import asyncio, importlib.util, sys
from typing import Optional

def answer(messages):
    return "%d.%d" % sys.version_info[:2]

async def waiting(messages):
    await asyncio.sleep(0)
    yield "%d.%d" % sys.version_info[:2]
    yield {"delta": " in one loop"}

def seen(messages):
    ours = ("pydantic", "numpy", "click", "yaml")
    import holodeck_action
    found = [name for name in ours if importlib.util.find_spec(name)]
    return " ".join(found) or "none of ours"

def grade(context):
    from holodeck.lib.test_runner.code_grader import GraderResult
    return GraderResult(score=1.0, reason=f"under {sys.version_info[1]}", details={1: (2, None)})

def tool(day: str, count: Optional[int] = None, tags: "list[str]" = ()):
    return day
"""
OURS = list(interpreters())


def suite(project: Project, target: str, expected: str, metrics: list[dict[str, Any]] | None = None) -> None:
    project.write("own.py", AGENT)
    project.suite([{"name": "a", "input": "?", "ground_truth": expected}], metrics)
    project.policy(target=f"python:own:{target}", environment={"interpreter": "env/bin/python"})


@pytest.mark.full
@pytest.mark.parametrize("version", OURS)
def test_targets_and_graders_run_under_it(project: Project, version: str) -> None:
    bare_python(project.folder / "env", interpreters()[version])
    metrics = [{"type": "standard", "metric": "equality"}, {"type": "code", "grader": "own:grade"}]
    suite(project, "waiting", f"{version} in one loop", metrics)
    ran = project.run("run", "-o", "out")
    assert ran.code == 0, ran.stderr + ran.stdout
    (_, graded) = evaluations(read_record(project.out / "results.json"))
    assert graded.explanation == f"under {version.partition('.')[2]}"


@pytest.mark.full
@pytest.mark.proves("Environment: interpreter", "Policy: environment")
def test_it_sees_its_own_packages_and_none_of_ours(project: Project) -> None:
    bare_python(project.folder / "env")
    suite(project, "seen", "none of ours")
    assert project.run("run").code == 0
    project.policy(target="python:own:seen")
    assert project.run("run").code == 1


@pytest.mark.parametrize("version", OURS[:1])
def test_functions_are_described_under_it(project: Project, version: str) -> None:
    bare_python(project.folder / "env", interpreters()[version])
    tools = [
        {
            "name": "t",
            "description": "d",
            "type": "function",
            "file": "own.py",
            "function": "tool",
            "parameters": {"hour": {"type": "string"}},
        }
    ]
    project.write("own.py", f"import sys\nassert sys.version.startswith({version!r})\n{AGENT}")
    project.suite([{"name": "a", "input": "?", "ground_truth": "x"}], tools=tools)
    project.policy(environment={"interpreter": "env/bin/python"})
    found = project.run("validate")
    assert found.code == 2
    assert 'the function tool has no parameter "hour" (it takes day, count, tags)' in found.stderr


@pytest.mark.needs("holodeck")
def test_names_that_need_our_packages_say_so(project: Project) -> None:
    bare_python(project.folder / "env")
    project.write("checks.py", "from holodeck.lib.evaluators.base import BaseEvaluator\n")
    project.suite([{"name": "a", "input": "?", "ground_truth": "x"}], [{"type": "code", "grader": "checks:g"}])
    project.policy(target="recorded:x.jsonl", environment={"interpreter": "env/bin/python"})
    found = project.run("validate")
    assert found.code == 2
    assert "add holodeck-action to the environment of the suite" in found.stderr


def test_an_installed_copy_of_ours_does_not_clash(project: Project) -> None:
    """The project may have another version of holodeck-action among its packages."""
    python = bare_python(project.folder / "env")
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    (packages / "holodeck_action").mkdir()
    (packages / "holodeck_action" / "__init__.py").write_text("raise ImportError('another version')\n")
    suite(project, "answer", ".".join(map(str, sys.version_info[:2])))
    assert project.run("run").code == 0


def test_programs_of_the_environment_are_found(project: Project) -> None:
    python = bare_python(project.folder / "env")
    script = python.with_name("own-program")
    script.write_text("#!/bin/sh\necho from the environment $VIRTUAL_ENV\n")
    script.chmod(0o755)
    project.write(
        "own.py",
        "import subprocess\n"
        "def answer(messages):\n"
        "    return subprocess.run(['own-program'], capture_output=True, text=True).stdout.strip()\n",
    )
    place = python.parents[1]
    project.suite([{"name": "a", "input": "?", "ground_truth": f"from the environment {place}"}])
    project.policy(target="python:own:answer", environment={"interpreter": "env/bin/python"})
    assert project.run("run").code == 0


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (None, "env/python cannot be started: No such file or directory"),
        ("#!/bin/sh\nprintf '3 8\\n/usr\\n'", "env/python is not a Python interpreter"),
        (
            "#!/bin/sh\nprintf '3\\n8\\n3.8.1\\n/usr\\n'",
            "env/python is Python 3.8; code of a suite needs 3.9 or newer",
        ),
        ("#!/bin/sh\nexit 1", "env/python is not a Python interpreter (allowed: a path to Python 3.9 or newer)"),
    ],
)
def test_what_is_no_python_is_refused_at_its_line(project: Project, script: str | None, says: str) -> None:
    if script is not None:
        path = project.write("env/python", script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    project.write("own.py", AGENT)
    project.suite([{"name": "a", "input": "?", "ground_truth": "x"}])
    project.write("holodeck-action.yaml", "target: python:own:answer\nenvironment:\n  interpreter: env/python\n")
    for command in ("run", "validate"):
        found = project.run(command)
        assert found.code == 2
        assert f"holodeck-action.yaml:3:16: environment.interpreter: {says}" in found.stderr


@pytest.mark.full
def test_the_python_of_the_job_is_the_last_resort(project: Project, tmp_path: Path) -> None:
    suite(project, "seen", "none of ours")
    project.policy(target="python:own:seen")
    python = bare_python(tmp_path / "of-the-job")
    assert project.run("run", HOLODECK_ACTION_PYTHON=str(python)).code == 0
    wrong = project.run("run", HOLODECK_ACTION_PYTHON=str(tmp_path / "gone"))
    assert wrong.code == 2
    assert f"HOLODECK_ACTION_PYTHON: {tmp_path}/gone cannot be started" in wrong.stderr
    bare_python(project.folder / "env")
    project.policy(target="python:own:seen", environment={"interpreter": "env/bin/python"})
    assert project.run("run", HOLODECK_ACTION_PYTHON=str(tmp_path / "gone")).code == 0


@pytest.mark.full
def test_packages_are_installed_for_the_python_of_the_job(project: Project) -> None:
    (oldest, path), *_ = interpreters().items()
    wheel(project.folder / "wheels", "other", "1.0", "")
    project.write("requirements.txt", f"{NO_INDEX}other\n")
    suite(project, "answer", oldest)
    project.policy(target="python:own:answer", environment={"requirements": "requirements.txt"})
    ran = project.run("run", HOLODECK_ACTION_PYTHON=path, **with_uv(project.folder))
    assert ran.code == 0, ran.stdout + ran.stderr
