"""Suites that ask models: generated, run as a process, and answered by a fake server in another one."""

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
"""Of every account; a suite finds it in `OPENAI_API_KEY` and in `BENCH_KEY`."""


@dataclass
class Server:
    """The fake: where each provider answers, and, once it has ended, what it has seen."""

    addresses: dict[str, str]
    seen: dict[str, Any] = field(default_factory=dict)


@contextmanager
def served(module: str, *arguments: str) -> Iterator[Server]:
    """Run a module that says its addresses as JSON, answers until its input ends, and then says what it has seen."""
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
    """Runs of generated suites below a folder, with compiled modules as an installed program has them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        compiled = str(root / "compiled")
        self._environ = {**kept, "PYTHONPYCACHEPREFIX": compiled, "OPENAI_API_KEY": KEY, "BENCH_KEY": KEY}

    @property
    def kept(self) -> Path:
        """Where a run may keep or record what the next one finds."""
        return self._root / "kept"

    def run(self, suite: Mapping[str, Any], *more: str, at_once: int, fine: Collection[int] = (0,)) -> Cost:
        """Run a suite in a new folder.

        Args:
            suite: agent.yaml.
            more: further arguments of `run`.
            at_once: trials at once.
            fine: exit codes of a run that did what it should.

        Raises:
            SystemExit: it ended with another one.
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
