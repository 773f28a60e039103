"""No room of the product grows, and no feature reaches further into the core, unnoticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = """\
[tool.holodeck-action]
modules-a-feature = 1
[tool.holodeck-action.lines-of-code]
"door.py" = 3
room = 4
"extensions/more" = 1
[tool.holodeck-action.features]
journal = 'room\\.journal'
"""
FILES = {
    "door.py": '"""The door."""\n\nimport os\n\nfrom holodeck_action.room.journal import Journal\n\n# Why.\nx = 1\n',
    "room/journal.py": "class Journal:\n    lines = 1\n",
    "room/below/second.py": "\n".join(f"x{number} = {number}" for number in range(8)),
    "extensions/more/code.py": "from holodeck_action.room import journal\n\ny = 1\n",
}


def budget(folder: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "scripts.budget", *options, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A package with a door, a room above its target, and an extension; its figures are written."""
    for name, text in FILES.items():
        file = tmp_path / "holodeck_action" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    assert budget(tmp_path, "--write")[0] == 0
    return tmp_path


def add(house: Path, name: str, text: str) -> None:
    with (house / "holodeck_action" / name).open("a") as file:
        file.write(text)


@pytest.mark.full
def test_every_figure_is_what_it_may_be() -> None:
    assert budget(ROOT) == (0, "")
    assert "-m scripts.budget\n" in (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2]


def test_code_alone_counts_and_a_figure_below_its_target_may_grow(house: Path) -> None:
    add(house, "door.py", '# A comment.\n\n"""A text below an attribute."""\nimport json\ny = 2\nz = 3\n')
    assert budget(house) == (0, "")
    assert [*map(str.split, budget(house, "--write")[1].splitlines())][1:5] == [
        ["door.py", "3", "3"],
        ["extensions/more", "1", "1"],
        ["room", "10", "4"],
        ["all", "14", "8"],
    ]
    add(house, "door.py", "w = 4\n")
    said = "door.py: the number of lines of code is 4, 1 more than it may be: delete what the new code replaces\n"
    assert budget(house) == (1, said)
    code, tables = budget(house, "--write")
    assert (code, tables.endswith(said)) == (1, True)


def test_a_figure_above_its_target_only_falls(house: Path) -> None:
    add(house, "room/new.py", "x = 1\n")
    assert budget(house)[1].startswith("room: the number of lines of code is 11, 1 more than it may be")
    (house / "holodeck_action" / "room" / "new.py").unlink()
    second = house / "holodeck_action" / "room" / "below" / "second.py"
    second.write_text(second.read_text().partition("\n")[0])
    assert "run `make budget`, and commit" in budget(house)[1]
    assert budget(house, "--write")[0] == 0
    add(house, "room/new.py", "x = 1\ny = 2\n")
    assert budget(house)[1].startswith("room: the number of lines of code is 5, 1 more")


def test_a_feature_that_reaches_further_into_the_core_is_named(house: Path) -> None:
    add(house, "extensions/more/other.py", "from holodeck_action.room.journal import Journal\n")
    assert budget(house) == (0, "")
    add(house, "room/below/second.py", "\nfrom holodeck_action.room.journal import Journal\n")
    assert budget(house)[1].startswith("journal: the number of modules of the core is 2, 1 more than it may be")


def test_a_room_without_a_target_is_named(house: Path) -> None:
    add(house, "new.py", "x = 1\n")
    assert budget(house) == (
        1,
        "new.py: the number of lines of code is 1 and has no target in pyproject.toml: give it one\n",
    )
