"""Ways to get packages and programs that are not installed, for messages."""

from __future__ import annotations

import sys
from pathlib import Path

_NODE = ("node", "npm", "npx")


def way_to_get(extra: str) -> str:
    """Return a clause on how to get the packages of an extra, such as `run pip install 'holodeck-action[judges]'`."""
    return f"run pip install 'holodeck-action[{extra}]'" if not _is_slim() else _complete_image()


def way_to_get_program(name: str) -> str | None:
    """Return a clause on how to get Node.js or npm in the slim image; None for other programs, or in another image."""
    return _complete_image() if name in _NODE and _is_slim() else None


def _is_slim() -> bool:
    # Made by the Dockerfile. An environment variable might not reach the processes that run libraries.
    return Path(sys.prefix, "slim").exists()


def _complete_image() -> str:
    return "use the complete image, whose tag has no -slim, such as v1"
