"""`pytest --holodeck agent.yaml` in real processes, with pytest 8 and 9 and pytest-xdist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.commands.project import Project

ROOT = Path(__file__).parents[3]
PLUGIN = "holodeck_action.extensions.pytest_plugin.plugin"


def test_an_environment_that_has_the_plugin_imports_it_alone() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert declared["pytest11"] == {"holodeck-action": PLUGIN}
    code = f"import sys; before = set(sys.modules); import {PLUGIN}; print(*sorted(set(sys.modules) - before))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    parts = PLUGIN.split(".")
    own = {".".join(parts[: end + 1]) for end in range(len(parts))}
    added = ended.stdout.split()
    assert {name for name in added if name.startswith("holodeck_action")} == own
    assert {name.partition(".")[0] for name in added} - {*sys.stdlib_module_names} == {"holodeck_action"}


@pytest.fixture(scope="module", params=["8", "9"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with this version of pytest, and pytest-xdist."""
    folder = tmp_path_factory.mktemp(f"pytest-{request.param}")
    packages = (f"pytest=={request.param}.*", "pytest-xdist")
    command = (ROOT / ".tools/bin/uv", "pip", "install", "--quiet", "--python", sys.executable, "--target", folder)
    subprocess.run([*map(str, command), *packages], check=True, timeout=300)
    return folder


class Session:
    """Runs pytest in a project, and counts the calls of its agent."""

    def __init__(self, project: Project, library: Path) -> None:
        self.project, self.library = project, library
        project.numbered(6, frozenset({4}))
        project.policy(target="command:python3 agent.py")
        project.write(
            "agent.py",
            "import json, pathlib, sys\n"
            "asked = json.loads(sys.stdin.readline())\n"
            "number = asked['input'].split()[-1].rstrip('?')\n"
            "pathlib.Path('calls').open('a').write(number + '\\n')\n"
            "print(json.dumps('wrong' if number == '4' else number))\n",
        )

    def run(self, *arguments: str) -> tuple[int, str, list[str]]:
        """The exit code, what was printed, and the numbers of the cases that the agent answered."""
        calls = self.project.folder / "calls"
        calls.unlink(missing_ok=True)
        plain = ("-p", "xdist.plugin", "-p", PLUGIN, "-rA", *arguments)
        environ = self.project.environ(
            PYTHONPATH=f"{self.library}{os.pathsep}{ROOT}", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"
        )
        for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_CURRENT_TEST"):
            environ.pop(name, None)
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *plain],
            cwd=self.project.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert "INTERNALERROR" not in ended.stdout + ended.stderr, ended.stdout + ended.stderr
        return (
            ended.returncode,
            ended.stdout + ended.stderr,
            sorted(calls.read_text().split()) if calls.exists() else [],
        )


def outcomes(text: str) -> dict[str, str]:
    found = re.findall(r"(?m)^(PASSED|FAILED|SKIPPED|XFAIL|ERROR) (?:\S*agent\.yaml::)(\S+)", text)
    return {name: word for word, name in found}


@pytest.mark.full
@pytest.mark.timeout(500)
def test_each_case_is_a_test_of_one_run(project: Project, library: Path) -> None:
    session = Session(project, library)
    version = subprocess.run(
        [sys.executable, "-m", "pytest", "--version"],
        env={**os.environ, "PYTHONPATH": str(library), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert library.name.startswith(f"pytest-{version.stdout.split()[1].split('.')[0]}")
    expected = {**{f"case-{n}": "FAILED" if n == 4 else "PASSED" for n in range(6)}, "verdict": "FAILED"}
    for workers in ((), ("-n", "2")):
        code, text, calls = session.run("--holodeck", "agent.yaml", *workers)
        assert (code, outcomes(text)) == (1, expected), text
        # One run, whatever the number of workers.
        assert calls == [*"012345"]
        assert "equality: 'wrong' differs from '4'" in text
    # The case that failed, and the verdict, which is that of this run.
    code, text, calls = session.run("--holodeck", "agent.yaml", "--lf", "-n", "2")
    assert (code, outcomes(text), calls) == (1, {"case-4": "FAILED", "verdict": "FAILED"}, ["4"])
    # The gates hold for what is selected, too.
    code, text, calls = session.run("--holodeck", "agent.yaml", "-k", "case-1 or case-4")
    assert (code, set(outcomes(text)), calls) == (1, {"case-1", "case-4", "verdict"}, ["1", "4"])
    code, text, calls = session.run("--holodeck", "agent.yaml::case-3")
    assert (code, outcomes(text), calls) == (0, {"case-3": "PASSED", "verdict": "PASSED"}, ["3"])
    # Without the option nothing is collected and nothing runs.
    code, text, calls = session.run()
    assert (code, outcomes(text), calls) == (5, {}, [])


@pytest.mark.full
@pytest.mark.timeout(500)
def test_the_session_fails_exactly_if_the_verdict_does(project: Project, library: Path) -> None:
    session = Session(project, library)
    code, text, _ = session.run("--holodeck", "--holodeck-args=--min-pass-rate 0.5", "--holodeck-output", "kept")
    assert (code, outcomes(text)["case-4"], outcomes(text)["verdict"]) == (0, "XFAIL", "PASSED"), text
    assert (project.folder / "kept/agent.yaml/results.json").is_file()
    # No case fails, and a gate does.
    project.policy(target="command:python3 agent.py", gates={"p95_latency_ms": 0.001})
    code, text, _ = session.run("--holodeck", "-k", "case-1")
    assert (code, outcomes(text)) == (1, {"case-1": "PASSED", "verdict": "FAILED"}), text
    # A run that does not begin passes no case.
    code, text, calls = session.run("--holodeck", "--holodeck-args=--target command:", "-n", "2")
    assert (code, calls) == (1, [])
    assert set(outcomes(text).values()) == {"FAILED"}
    assert "ended with exit code 2 and without results" in text
    # A suite that is not valid is an error of collection, with its line.
    project.write("agent.yaml", "name: [\n")
    code, text, _ = session.run("--holodeck")
    assert code == 2
    assert "agent.yaml:2" in text
