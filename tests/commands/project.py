"""Suites on disk, and the command line run on them: in this process, or in one of its own."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holodeck_action.cli import main
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from tests.commands.forked import Forked, needs_interpreter

PROCESS_WIDE = (
    "PYTHON",
    "OTEL_",
    "LC_",
    "TZ",
    "TMPDIR",
    "SSL_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "TERM",
    "COLUMNS",
)
"""How the names of variables begin that Python or a library reads from the process itself."""
COMMAND = (sys.executable, "-m", "holodeck_action.cli")
Process = Forked | subprocess.Popen[str]


@dataclass(frozen=True)
class Finished:
    """An ended command."""

    code: int
    stdout: str
    stderr: str

    @property
    def errors(self) -> list[str]:
        """The sentences of errors, without the lines of files that are shown below them."""
        lines = self.stderr.splitlines()
        return [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]


def run_here(folder: Path, arguments: tuple[str, ...], environ: Mapping[str, str]) -> Finished:
    """Run the command line in this process, in a folder."""
    stdin, stdout, stderr = io.StringIO(), io.StringIO(), io.StringIO()
    code = main(arguments, environ, folder, stdin, stdout, stderr)
    return Finished(code, stdout.getvalue(), stderr.getvalue())


def evaluations(record: Record) -> list[Evaluation]:
    """All evaluations of a record, in its order."""
    return [*record.evaluations]


class Project:
    """A folder with a suite, and the program run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"

    def copy_to(self, folder: Path) -> Project:
        """Copy everything into another folder."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Project(folder)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def suite(self, cases: list[dict[str, Any]], metrics: list[dict[str, Any]] | None = None, **top: Any) -> None:
        """Write agent.yaml (JSON is YAML) with the given cases and metrics."""
        document = {
            "name": "tested",
            "model": {"provider": "openai", "name": "gpt-4o"},
            "instructions": {"inline": "Answer."},
            "evaluations": {"metrics": metrics or [{"type": "standard", "metric": "equality"}]},
            "test_cases": cases,
            **top,
        }
        self.write("agent.yaml", json.dumps({k: v for k, v in document.items() if v is not None}, indent=1))

    def policy(self, **content: Any) -> None:
        self.write("holodeck-action.yaml", json.dumps(content, indent=1))

    def answers(self, rows: list[dict[str, Any]], name: str = "answers.jsonl") -> None:
        self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def numbered(self, count: int, wrong: frozenset[int] = frozenset()) -> None:
        """A suite of `count` cases answered from a transcript, the `wrong` ones wrongly."""
        self.suite([{"name": f"case {n}", "input": f"what is {n}?", "ground_truth": str(n)} for n in range(count)])
        self.answers([{"case": f"case {n}", "response": "wrong" if n in wrong else str(n)} for n in range(count)])
        self.policy(target="recorded:answers.jsonl")

    def environ(self, **more: str) -> dict[str, str]:
        # Judges of tests answer what a test scripts; tests of probes set `judges.probe`, which wins.
        quiet = {"HOLODECK_JUDGE_PROBE": "never"}
        return {**os.environ, "HOME": str(self.folder / "home"), **quiet, **more}

    def start(self, *arguments: str, **environ: str) -> Process:
        """Start the command line in a process of its own, and an interpreter for variables of its start."""
        if needs_interpreter(self.environ(**environ)):
            return self.start_interpreter(*arguments, **environ)
        return Forked([*COMMAND[1:], *arguments], self.folder, self.environ(**environ))

    def start_interpreter(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """Start the command line in an interpreter of its own."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.environ(**environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environ: str) -> Finished:
        """Run the command line in this process, or in one of its own for variables that are read from the process."""
        if any(name.startswith(PROCESS_WIDE) for name in environ):
            return self.run_process(*arguments, **environ)
        return self._seen(run_here(self.folder, arguments, self.environ(**environ)))

    def run_process(self, *arguments: str, **environ: str) -> Finished:
        """Run the command line in a process of its own, where the process matters."""
        return self._ended(self.start(*arguments, **environ))

    def run_interpreter(self, *arguments: str, **environ: str) -> Finished:
        """Run the command line in an interpreter of its own, where its start matters."""
        return self._ended(self.start_interpreter(*arguments, **environ))

    def _ended(self, process: Process) -> Finished:
        with process:
            stdout, stderr = process.communicate(timeout=100)
            return self._seen(Finished(process.wait(), stdout, stderr))

    @staticmethod
    def _seen(finished: Finished) -> Finished:
        # Nor anything the interpreter says of its own accord.
        for phrase in ("Traceback", "Exception ignored", "never retrieved", "Warning: "):
            assert phrase not in finished.stdout + finished.stderr, finished.stdout + finished.stderr
        return finished

    def evaluate(self, *arguments: str, **environ: str) -> tuple[Finished, Record]:
        """Run with results written, and read them back."""
        finished = self.run("run", "-o", "out", *arguments, **environ)
        return finished, read_record(self.out / "results.json")

    def wait_until(self, happened: Callable[[], bool], seconds: float = 60) -> None:
        """Wait for something the program does; fail when it does not happen."""
        limit = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < limit, "it did not happen"
            time.sleep(0.01)

    def verdict(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.out / "verdict.json").read_bytes())
        return loaded
