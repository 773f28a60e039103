"""What happens to tests that fail: few of them run again, each alone; others and races have failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.second_try import MOST, TITLE

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.full
BESIDE = """
import os, pathlib, pytest
def test_passes(): pass
def test_beside_others():
    assert "PYTEST_XDIST_WORKER" not in os.environ
"""
TWICE = (
    BESIDE
    + """
def test_always(): assert 1 == 2
"""
)
RACE = BESIDE.replace("def test_beside", "@pytest.mark.races\ndef test_beside")
SKIPPED = """
import os, pytest
def test_beside_others():
    if "PYTEST_XDIST_WORKER" not in os.environ: pytest.skip("alone")
    assert False
"""
PRODUCT = """
import os, pytest
def test_beside_others():
    assert "PYTEST_XDIST_WORKER" not in os.environ, 'File "/x/holodeck_action/run/loop.py", line 3, in run'
"""
FIXTURE = """
import os, pytest
@pytest.fixture
def made():
    yield 1
    assert "PYTEST_XDIST_WORKER" not in os.environ
def test_beside_others(made): pass
"""
MANY = f"""
import os, pytest
@pytest.mark.parametrize("number", range({MOST + 1}))
def test_beside_others(number):
    assert "PYTEST_XDIST_WORKER" not in os.environ
"""


def run(folder: Path, code: str, *arguments: str) -> tuple[int, str]:
    """Run pytest with the plugin and one worker in a folder with one file of tests."""
    (folder / "test_it.py").write_text(code)
    (folder / "conftest.py").write_text('pytest_plugins = ("tests.plugins.second_try",)\n')
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q -p xdist.plugin\nmarkers = races\n")
    command = [sys.executable, "-m", "pytest", "-n", "1", *arguments]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("code", [BESIDE, FIXTURE], ids=["call", "teardown"])
def test_a_test_that_fails_beside_others_runs_alone_and_is_listed(tmp_path: Path, code: str) -> None:
    exit_code, output = run(tmp_path, code)
    assert (exit_code, "1 passed alone" in output) == (0, True), output
    assert f"{TITLE}\ntest_it.py::test_beside_others" in output.replace("= ", "").replace(" =", "").replace("=", "")
    assert "PYTEST_XDIST_WORKER" in output


@pytest.mark.parametrize(
    ("code", "arguments"),
    [(RACE, ()), (SKIPPED, ()), (PRODUCT, ()), (MANY, ()), (BESIDE, ("--no-second-try",))],
    ids=["race", "skipped", "product", "many", "strict"],
)
def test_what_is_no_accident_has_failed(tmp_path: Path, code: str, arguments: tuple[str, ...]) -> None:
    exit_code, output = run(tmp_path, code, *arguments)
    assert (exit_code, TITLE in output) == (1, False), output


def test_a_run_with_another_failure_fails(tmp_path: Path) -> None:
    exit_code, output = run(tmp_path, TWICE)
    assert (exit_code, "1 failed, 1 passed, 1 passed alone" in output) == (1, True), output
    assert output.index("FAILURES") < output.index("test_always") < output.index(TITLE)
