"""On Windows the program ends with one sentence, before it needs what Windows lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holodeck_action.text.platforms import WINDOWS

ON_WINDOWS = """
import sys
sys.platform = "win32"
sys.modules.update(dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios", "pty")))
"""
"""A Python that says it is on Windows, without the modules that are missing there."""
DOORS = ("from holodeck_action.cli import start; start()", "from holodeck_action.cli import main")


def on_windows(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ON_WINDOWS + program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("program", DOORS)
def test_the_command_line_says_where_it_runs(program: str, tmp_path: Path) -> None:
    ended = on_windows(program, tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"error: {WINDOWS}\n")


def test_the_python_api_says_it_too(tmp_path: Path) -> None:
    ended = on_windows("from holodeck_action import evaluate", tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"ImportError: {WINDOWS}"


def test_pages_say_it_once() -> None:
    docs = Path(__file__).parents[2] / "docs"
    [page] = [page.name for page in docs.glob("*.md") if "learn.microsoft.com/windows/wsl" in page.read_text("utf-8")]
    assert page == "stability.md"
