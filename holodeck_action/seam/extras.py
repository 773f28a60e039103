"""Ways to get packages and programs that are not installed, for messages."""

from __future__ import annotations

import sys
from pathlib import Path

_NODE = ("node", "npm", "npx")


def way_to_get(extra: str) -> str:
    """Return the clause that says how to get the packages of an extra: `run pip install 'holodeck-action[judges]'`."""
    return f"run pip install 'holodeck-action[{extra}]'" if not _is_slim() else _complete_image()


def way_to_get_program(name: str) -> str | None:
    """Return the clause that says how to get a program that only the complete image has; None for other programs and
    outside the slim image."""
    return _complete_image() if name in _NODE and _is_slim() else None


def _is_slim() -> bool:
    # Made by the Dockerfile. An environment variable might not reach the processes that run libraries.
    return Path(sys.prefix, "slim").exists()


def _complete_image() -> str:
    return "use the complete image, whose tag has no -slim, such as v1"
