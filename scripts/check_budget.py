"""Checks that no room of the product has more lines than `pyproject.toml` allows; `make lint` runs it.

Lines are counted as they are, comments and blank ones included. Each extension is a room.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXTENSIONS = "extensions"


def rooms(package: Path) -> dict[str, int]:
    """Return the number of lines of Python in each room of a package, by its name below the package."""
    found = {}
    for entry in [*package.iterdir(), *(package / EXTENSIONS).glob("*/")]:
        files = [entry] if entry.suffix == ".py" else [*entry.rglob("*.py")]
        if entry.name != EXTENSIONS and not entry.name.startswith("__") and files:
            found[entry.relative_to(package).as_posix()] = sum(file.read_bytes().count(b"\n") for file in files)
    return found


def problems(root: Path) -> Iterator[str]:
    """Yield a line for each room that is too large or has no budget."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    budget: dict[str, int] = settings["tool"]["holodeck-action"]["lines"]
    for room, lines in sorted(rooms(root / "holodeck_action").items()):
        if room not in budget:
            yield f"holodeck_action/{room}: has {lines:,} lines and no budget in pyproject.toml: give it one"
        elif lines > budget[room]:
            yield (
                f"holodeck_action/{room}: has {lines:,} lines, {lines - budget[room]:,} more than its budget in "
                "pyproject.toml: make it smaller, move it into an extension, or raise the number and say why"
            )


def main(arguments: Sequence[str] = ()) -> int:
    """Print the problems of a repository; return 1 if there are any."""
    lines = list(problems(Path(arguments[0]) if arguments else ROOT))
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
