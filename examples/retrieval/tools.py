"""Reading the handbook: a list of sections, each with an id."""

from __future__ import annotations

import json
from pathlib import Path

HANDBOOK = Path(__file__).parent / "handbook.json"


def read_section(section: str) -> str:
    """Return the whole text of one section, such as `safety-3`."""
    sections = json.loads(HANDBOOK.read_text(encoding="utf-8"))
    return next(entry["text"] for entry in sections if entry["id"] == section)
