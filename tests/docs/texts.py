"""What the program can say: the texts of its source."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
GAP = "…"
"""Stands for what is filled in at run time."""


@cache
def texts_of_the_program() -> frozenset[str]:
    """Return every text of the source, with a gap for each part that is filled in."""
    found = set()
    for file in (ROOT / "holodeck_action").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.add("".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return frozenset(found)
