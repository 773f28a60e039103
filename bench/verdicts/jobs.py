"""Jobs that evaluate an agent: a folder, its environment, and the commands of a program in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from bench.verdicts.scenarios import Case, Scenario
from bench.verdicts.server import Form, serve

LIMIT_S = 90.0
"""The job's time limit in seconds."""
TIMED_OUT = 124
"""Exit code of a command that the time limit ends."""
KEY = "sk-bench-0123456789"
ORDER_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "status": {"type": "string"}, "total": {"type": "number"}},
    "required": ["id", "status", "total"],
}
_AGENT = Path(__file__).with_name("agent.py")

Call: TypeAlias = Callable[[tuple[str, ...], Path, Mapping[str, str]], tuple[int, str]]
"""Runs a command in a folder; returns its exit code and the end of its output."""


class NotOfferedError(Exception):
    """A program does not offer what a scenario needs; the text says what."""


@dataclass
class Job:
    """One job: the scenario, its folder, the model server's address, and the command of the program."""

    scenario: Scenario
    folder: Path
    address: str
    command: str
    call: Call
    said: str = ""
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, content: Any) -> Path:
        """Write a file: text as it is, other values as JSON, which is YAML, too."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
        return path

    def copy_agent(self) -> None:
        """Copy the agent's own code into the folder."""
        shutil.copy(_AGENT, self.folder / "agent.py")

    def run(self, *command: str) -> int:
        """Run a command and return its exit code; the end of its output is kept."""
        code, said = self.call(command, self.folder, self.environ)
        self.said += f"$ {' '.join(command)[:200]}\n{said}\nexit code {code}\n"
        return code


Adapter: TypeAlias = Callable[[Job], int]
"""Runs a job and returns its exit code. Raises: NotOfferedError."""


def call_process(command: tuple[str, ...], folder: Path, environ: Mapping[str, str]) -> tuple[int, str]:
    """Run a command as a process with the job's time limit; at its end its descendants are killed."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = TIMED_OUT
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - 6_000))
        return code, output.read().decode(errors="replace")


def run_job(
    scenario: Scenario, adapter: Adapter, form: Form, command: str = "", call: Call = call_process
) -> tuple[int, str]:
    """Run one job in a new folder; returns its exit code and the end of its output.

    Raises:
        NotOfferedError: the program does not offer what the scenario needs.
    """
    with tempfile.TemporaryDirectory() as root, serve(scenario, form) as address:
        folder = Path(root) / "workspace"
        folder.mkdir()
        job = Job(scenario, folder, address, command, call)
        job.environ = _environ(Path(root) / "home", address)
        return adapter(job), job.said


def _environ(home: Path, address: str) -> dict[str, str]:
    """Return the environment of a runner, without telemetry and checks for newer versions."""
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": address,
        "AGENT_INSTRUCTIONS": "Answer.",
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
        "DEEPEVAL_DISABLE_DOTENV": "1",
        "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
    }


def final_cases(scenario: Scenario) -> tuple[Case, ...]:
    """Return the cases of a program without a base, after the pull request's change."""
    return () if scenario.change.empty == "cases" else scenario.cases
