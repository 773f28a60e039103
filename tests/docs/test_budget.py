"""No room of the product grows beyond its budget unnoticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def checked(folder: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "scripts.check_budget", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A package with a door, a room and an extension, all within their budgets."""
    for name, lines in {
        "door.py": 3,
        "room/first.py": 4,
        "room/below/second.py": 6,
        "extensions/more/code.py": 5,
    }.items():
        file = tmp_path / "holodeck_action" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n" * lines)
    budget = '[tool.holodeck-action.lines]\n"door.py" = 3\nroom = 10\n"extensions/more" = 5\n'
    (tmp_path / "pyproject.toml").write_text(budget)
    return tmp_path


def test_every_room_is_within_its_budget() -> None:
    assert checked(ROOT) == (0, "")
    assert "-m scripts.check_budget\n" in (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2]


def test_a_room_that_grows_is_named_with_the_way_out(house: Path) -> None:
    assert checked(house) == (0, "")
    (house / "holodeck_action" / "room" / "third.py").write_text("# One.\n# Two.\n")
    (house / "holodeck_action" / "extensions" / "more" / "new.py").write_text("\n")
    code, said = checked(house)
    assert code == 1
    assert "holodeck_action/extensions/more: has 6 lines, 1 more than its budget in pyproject.toml" in said
    assert "holodeck_action/room: has 12 lines, 2 more than its budget in pyproject.toml: make it smaller" in said


def test_a_room_without_a_budget_is_named(house: Path) -> None:
    (house / "holodeck_action" / "new.py").write_text("# One.\n")
    assert checked(house) == (1, "holodeck_action/new.py: has 1 lines and no budget in pyproject.toml: give it one\n")
