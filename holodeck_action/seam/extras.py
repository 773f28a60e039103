"""Ways to get packages and programs that are not installed, for messages."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

_NODE = ("node", "npm", "npx")
_PACKAGED_BELOW: Mapping[str, tuple[int, int]] = {"azure": (3, 15), "files": (3, 15)}
"""The first version of Python for which packages of an extra are missing on the package index."""
_INSTALLERS: Mapping[str, str] = {"uv-receipt.toml": "uv tool install", "pipx_metadata.json": "pipx install --force"}
"""Commands that install a program, by the file that each leaves in the folder of the program's Python."""


def way_to_get(extra: str, python: tuple[int, ...] = sys.version_info[:3], prefix: str = sys.prefix) -> str:
    """Return a clause on how to get the packages of an extra, such as `run pip install 'holodeck-action[judges]'`.

    Args:
        extra: name of the extra.
        python: the version of Python.
        prefix: the folder of this Python, which tells how the program was installed.
    """
    if _is_slim():
        return _complete_image()
    way = f"run {_installer(Path(prefix))} 'holodeck-action[{extra}]'"
    if is_packaged(extra, python):
        return way
    major, minor = _PACKAGED_BELOW[extra]
    return f"{way} with Python {major}.{minor - 1}, since some of its packages do not exist for newer versions"


def _installer(prefix: Path) -> str:
    # uvx runs programs from the archive of its cache.
    if "archive-v0" in prefix.parts:
        return "uvx"
    return next((command for file, command in _INSTALLERS.items() if (prefix / file).exists()), "pip install")


def is_packaged(extra: str, python: tuple[int, ...] = sys.version_info[:3]) -> bool:
    """Return whether the packages of an extra exist for a version of Python."""
    return extra not in _PACKAGED_BELOW or python[:2] < _PACKAGED_BELOW[extra]


def way_to_get_program(name: str) -> str | None:
    """Return a clause on how to get Node.js or npm in the slim image; None for other programs, or in another image."""
    return _complete_image() if name in _NODE and _is_slim() else None


def _is_slim() -> bool:
    # Made by the Dockerfile. An environment variable might not reach the processes that run libraries.
    return Path(sys.prefix, "slim").exists()


def _complete_image() -> str:
    return "use the complete image, whose tag has no -slim, such as v1"
