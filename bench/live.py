"""Runs generated suites as a process, with models answered by a fake server in another process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.processes import PROGRAM, Cost, measure

ROOT = Path(__file__).resolve().parent.parent
KEY = "sk-bench-0123456789"
"""Key of every account; suites read it from `OPENAI_API_KEY` and `BENCH_KEY`."""


@dataclass
class Server:
    """A fake server: the address of each provider and, once it has ended, its statistics."""

    addresses: dict[str, str]
    seen: dict[str, Any] = field(default_factory=dict)


@contextmanager
def run_server(module: str, *arguments: str) -> Iterator[Server]:
    """Run a server module, which prints its addresses as JSON, serves until its input ends, and prints statistics."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    server = Server(json.loads(process.stdout.readline()))
    try:
        yield server
    finally:
        process.stdin.close()
        server.seen = json.loads(process.stdout.read())
        process.wait()


class Bench:
    """Runs generated suites below a folder, with compiled modules as in an installed program."""

    def __init__(self, root: Path) -> None:
        self._root = root
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        compiled = str(root / "compiled")
        self._environ = {**kept, "PYTHONPYCACHEPREFIX": compiled, "OPENAI_API_KEY": KEY, "BENCH_KEY": KEY}

    @property
    def suite_folder(self) -> Path:
        """The folder of the last suite that ran."""
        return self._root / "suite"

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables of runs."""
        return self._environ

    @property
    def kept_folder(self) -> Path:
        """A folder for caches and recordings, which later runs can read."""
        return self._root / "kept"

    def run(self, suite: Mapping[str, Any], *more: str, at_once: int, fine: Collection[int] = (0,)) -> Cost:
        """Run a suite in a new folder.

        Args:
            suite: data of agent.yaml.
            more: further arguments of `run`.
            at_once: number of trials at once.
            fine: exit codes of a successful run.

        Raises:
            SystemExit: the run ended with another exit code.
        """
        folder = self._root / "suite"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        # JSON is YAML, too.
        (folder / "agent.yaml").write_text(json.dumps(suite, indent=1))
        (folder / "holodeck-action.yaml").write_text(json.dumps({"limits": {"concurrency": at_once}}))
        cost = measure((*PROGRAM, "run", "-o", "out", *more), folder, self._environ)
        if cost.code not in fine:
            cases = len(suite["test_cases"])
            raise SystemExit(f"the run of {cases} cases ended with exit code {cost.code}:\n{cost.said}")
        return cost

    def record(self) -> dict[str, Any]:
        """Return the record of the last run."""
        found: dict[str, Any] = json.loads((self._root / "suite" / "out" / "results.json").read_bytes())
        return found
