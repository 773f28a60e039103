"""`init`: a suite that runs, its policy file, a stand-in agent and a workflow, written into a repository."""

from __future__ import annotations

import os
import shlex
from importlib.resources import files
from pathlib import Path

from holodeck_action.preflight import ConfigurationError
from holodeck_action.results.files import write_atomically

FILES = {
    "agent.yaml": "agent.yaml",
    "holodeck-action.yaml": "holodeck-action.yaml",
    "my_agent.py": "my_agent.py",
    ".github/workflows/evaluate.yml": "evaluate.yml",
}
"""Path in the repository and name of the shipped file."""


def initialise(folder: Path, *, force: bool) -> tuple[str, ...]:
    """Write the files and return what to tell the user, line by line.

    Args:
        folder: root of the repository; made when it does not exist.
        force: replace files that exist.

    Raises:
        ConfigurationError: a file exists, or one cannot be written. Where one exists, nothing is written.
    """
    existing = [name for name in FILES if os.path.lexists(folder / name)]
    if existing and not force:
        raise ConfigurationError([f"{folder / name}: exists already; --force replaces it" for name in existing])
    shipped = files("holodeck_action") / "starter"
    lines: list[str] = []
    for name, source in FILES.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, [(shipped / source).read_bytes()])
        except OSError as error:
            raise ConfigurationError(
                [f"{path}: cannot be written: {error.strerror}; give a folder that is yours to write to"]
            ) from error
        lines.append(f"wrote {path}")
    root = _repository_root(folder)
    if root is not None:
        lines.append(f"note: GitHub reads workflows only in {root / '.github/workflows'}: move evaluate.yml there")
    place = "" if folder == Path() else f" {shlex.quote(str(folder))}"
    return (*lines, "next:", f"  holodeck-action validate{place}", f"  holodeck-action run{place} -o holodeck-results")


def _repository_root(folder: Path) -> Path | None:
    """Return the root of the repository around `folder`; None when it is the root itself, or there is none."""
    own, *parents = (folder.resolve(), *folder.resolve().parents)
    if (own / ".git").exists():
        return None
    return next((parent for parent in parents if (parent / ".git").exists()), None)
