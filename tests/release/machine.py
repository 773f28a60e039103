"""A machine of somebody who installs the program: an empty home, an interpreter, and one of three installers."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from tests.docs.beginner import of_the_machine
from tests.docs.pages import ROOT
from tests.release.package_index import PackageIndex
from tests.workers.installing import interpreters, uv

NAME = "holodeck-action"
COMPLETE = "COMPLETE"
"""The variable by which what cannot be tried on a machine is a failure."""
_OWN = Path(sys.executable).parent
_CANNOT = 77


def versions() -> list[str]:
    """The versions of Python that the package claims to run on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claims = [claim.rpartition(" :: ")[2] for claim in project["classifiers"] if ":: Python :: 3." in claim]
    assert len(claims) > 1
    return claims


def not_tried(what: str) -> NoReturn:
    """Skip a test whose needs this machine lacks; fail it if everything must be tried."""
    if os.environ.get(COMPLETE):
        pytest.fail(f"NOT TRIED: {what}")
    pytest.skip(f"NOT TRIED: {what}")


@cache
def python(version: str) -> str:
    """Return the path of an interpreter, one of Debian's if the machine has none; skip the test if there is none."""
    if version in interpreters():
        return interpreters()[version]
    made = subprocess.run(
        [ROOT / "scripts" / "debian_python.sh", version], capture_output=True, text=True, timeout=600, check=False
    )
    if made.returncode != 0:
        assert made.returncode == _CANNOT, made.stderr
        not_tried(f"PYTHON {version}: {made.stderr.strip()}")
    return made.stdout.strip()


@dataclass(frozen=True)
class Machine:
    """An empty home, and an index from which everything is installed; `extras` are of the form `[a,b]`, or empty."""

    folder: Path
    index: PackageIndex
    python: str
    extras: str = ""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environ(self) -> dict[str, str]:
        """All variables of the machine: none names a cache or a package of this checkout."""
        kept = {name: value for name, value in of_the_machine().items() if "CACHE" not in name}
        path = f"{Path(self.python).parent}:/usr/local/bin:/usr/bin:/bin"
        return {**kept, **self.index.environ, "UV_PYTHON_DOWNLOADS": "never", "PATH": path, "HOME": str(self.home)}

    def call(self, *command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder `work`, to its end."""
        work = self.folder / "work"
        for folder in (self.home, work):
            folder.mkdir(exist_ok=True)
        return subprocess.run(
            list(map(str, command)),
            cwd=work,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def do(self, *command: str | Path, code: int = 0, **environ: str) -> str:
        """Run a command, which must end with a code and without a warning of Python; return what it prints."""
        ended = self.call(*command, **environ)
        said = ended.stdout + ended.stderr
        assert ended.returncode == code, f"{command} ended with {ended.returncode}:\n{said}"
        assert "Traceback" not in said, said
        assert "Warning:" not in said, said
        return ended.stdout


Program = tuple[str, ...]
"""The words before the arguments of the program."""


def with_uvx(machine: Machine) -> Program:
    """Return the words by which uv runs the program."""
    return (str(uv().with_name("uvx")), "--python", machine.python, "--from", f"{NAME}{machine.extras}", NAME)


def with_pipx(machine: Machine) -> Program:
    """Return the words by which pipx runs the program."""
    spec = f"{NAME}{machine.extras}"
    return (str(_OWN / "pipx"), "run", "--quiet", "--python", machine.python, "--spec", spec, NAME)


def with_pip(machine: Machine) -> Program:
    """Install the program with pip into a new environment, and return its path."""
    environment = machine.folder / "environment"
    machine.do(machine.python, "-m", "venv", environment)
    machine.call(environment / "bin" / "python", "-m", "pip", "install", "--quiet", f"{NAME}{machine.extras}")
    return (str(environment / "bin" / NAME),)


INSTALLERS: dict[str, Callable[[Machine], Program]] = {"uvx": with_uvx, "pipx": with_pipx, "pip": with_pip}
