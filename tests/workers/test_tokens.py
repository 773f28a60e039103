"""The job's tokens, and code of the suite that looks for them in the process that started it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from holodeck_action.workers.environment import WITHHELD_VARIABLES
from tests.commands.project import Project

LOOKING = """
import os, pathlib


def looks(ctx):
    shown = b"".join(
        pathlib.Path(f"/proc/{process}/environ").read_bytes() for process in (os.getppid(), os.getpid())
    )
    assert b"PATH=" in shown
    return b"of-the-job" not in shown
"""


@pytest.mark.full
def test_a_grader_finds_no_token_in_the_process_that_started_it(project: Project) -> None:
    project.suite([{"input": "hi", "ground_truth": "hi"}], [{"type": "code", "grader": "graders:looks"}])
    project.policy(target="python:graders:answer")
    project.write("graders.py", f"{LOOKING}\n\ndef answer(messages):\n    return 'hi'\n")
    tokens = {name: f"token-{at}-of-the-job" for at, name in enumerate(sorted(WITHHELD_VARIABLES))}
    finished = project.run_interpreter("run", **tokens)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert "could not be hidden" not in finished.stderr


READ = """
import os, sys
before = "ctypes" in sys.modules
from holodeck_action.commands.program import hide_tokens
told = hide_tokens()
shown = open("/proc/self/environ", "rb").read()
print(told, os.environ.get("GITHUB_TOKEN"), b"ghs_" in shown, b"KEPT=kept" in shown, "ctypes" in sys.modules)
"""


@pytest.mark.parametrize(
    ("token", "said"),
    [("ghs_token", "None ghs_token False True True"), ("", "None  False True False")],
)
def test_our_own_process_keeps_its_token_and_does_nothing_without_one(token: str, said: str) -> None:
    environ = {"PATH": os.environ["PATH"], "GITHUB_TOKEN": token, "KEPT": "kept"}
    done = subprocess.run([sys.executable, "-c", READ], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said
