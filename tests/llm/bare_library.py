"""What a library does by itself, with its own client, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def run_bare(module: str, *arguments: str, folder: Path, rows: object = None) -> Any:
    """Run a module of the tests that reads `rows` as JSON; returns what the last line of its output holds."""
    finished = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        input=json.dumps(rows),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return json.loads(finished.stdout.splitlines()[-1])
