"""The check for circles of imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.budget import ROOT
from scripts.check_circles import circle

FILES = {
    "a.py": "from __future__ import annotations\n",
    "room/b.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from holodeck_action.room.c import C\n",
    "room/c.py": "def c() -> None:\n    from holodeck_action import a\n    from holodeck_action.room.d import D\n",
}


@pytest.mark.parametrize(("imported", "size"), [("from holodeck_action.room.b import B", 4), ("import os", 0)])
def test_a_circle_is_found_wherever_its_imports_are(tmp_path: Path, imported: str, size: int) -> None:
    for name, text in {**FILES, "room/d.py": f"{imported}\n"}.items():
        file = tmp_path / "holodeck_action" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert len(circle(tmp_path)) == size


def test_lint_refuses_circles() -> None:
    assert "-m scripts.check_circles\n" in (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2]
