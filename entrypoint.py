"""Entry point of the image: the step of a workflow when the runner starts it, else the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _complete_path() -> None:
    """Append the folders of this Python, the image's tools and the system to PATH: a job may have replaced it."""
    given = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    needed = [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    os.environ["PATH"] = os.pathsep.join([*given, *(folder for folder in needed if folder not in given)])


def _find_package() -> None:
    """Put this file's folder on the module path if it holds our package; an isolated Python does not search it."""
    folder = Path(__file__).resolve().parent
    if (folder / "holodeck_action").is_dir():
        sys.path.insert(0, str(folder))


if __name__ == "__main__":
    _complete_path()
    _find_package()
    if os.environ.get("GITHUB_ACTIONS") == "true" and len(sys.argv) == 1:
        from holodeck_action.action import start
    else:
        from holodeck_action.cli import start
    start()
