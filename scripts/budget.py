"""Compares the size of each room, and how far features reach into the core, with what they had; `make lint` runs it.

    python -m scripts.budget [--write] [ROOT]

The first table has the lines of code (`scripts/code_lines.py`) of each room, or extension, beside its target.
The second has, for each feature that crosses the core, the number of modules of the core outside the feature's own ones
that import from them. Targets and patterns are in `pyproject.toml`, what is reached in `scripts/budget.json`.
A figure above its target may only fall, one below it may grow to it. `--write` (`make budget`) prints both tables, and
keeps what has fallen.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scripts.code_lines import code_lines

ROOT = Path(__file__).parent.parent
PACKAGE = "holodeck_action"
EXTENSIONS = "extensions"
REGISTRY = "registry"
REACHED = Path("scripts") / "budget.json"


class Figure(NamedTuple):
    """A figure of the tables: what there is now, the target, and the figure that was reached (None if none was)."""

    name: str
    now: int
    target: int | None
    reached: int | None

    @property
    def problem(self) -> str:
        """What is wrong, without a name; empty if nothing is."""
        if self.target is None:
            return f"is {self.now:,} and has no target in pyproject.toml: give it one"
        most = max(self.target, self.reached or 0)
        if self.now > most:
            return f"is {self.now:,}, {self.now - most:,} more than it may be: delete what the new code replaces"
        if self.reached is None or self.reached > max(self.now, self.target):
            return f"is {self.now:,}, and scripts/budget.json does not say so: run `make budget`, and commit the file"
        return ""


def _modules(package: Path) -> Iterator[Path]:
    return package.rglob("*.py")


def rooms(package: Path) -> dict[str, int]:
    """Return the lines of code of each room of a package, by its name below the package."""
    found: dict[str, int] = {}
    for module in _modules(package):
        parts = module.relative_to(package).parts
        name = "/".join(parts[: 2 if parts[0] == EXTENSIONS else 1])
        if not name.endswith("__init__.py"):
            found[name] = found.get(name, 0) + code_lines(module.read_text(encoding="utf-8"))
    return found


def imports(module: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports, and what it asks the registry of extensions for."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            case ast.Attribute(value=ast.Name(id="registry")):
                yield f"{REGISTRY}.{node.attr}"


def crossings(package: Path, patterns: Mapping[str, str]) -> dict[str, int]:
    """Return for each feature the number of modules of the core that import from the feature's own modules.

    Args:
        package: the folder of the package.
        patterns: regular expressions by feature. A module whose dotted name matches is the feature's own.
    """
    core = [module for module in _modules(package) if module.relative_to(package).parts[0] != EXTENSIONS]
    dotted = {module: ".".join(module.relative_to(package.parent).with_suffix("").parts) for module in core}
    imported = {module: [*imports(module)] for module in core}
    found = {}
    for feature, pattern in patterns.items():
        own = re.compile(pattern).search
        found[feature] = sum(not own(dotted[module]) and any(map(own, imported[module])) for module in core)
    return found


def measure(root: Path) -> dict[str, list[Figure]]:
    """Return the figures of a repository, by table."""
    settings: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    declared = settings["tool"]["holodeck-action"]
    targets: dict[str, int] = declared["lines-of-code"]
    patterns: dict[str, str] = declared["features"]
    file = root / REACHED
    reached: dict[str, dict[str, int]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    goal: int = declared["modules-a-feature"]
    return {
        "lines of code": [
            Figure(name, now, targets.get(name), reached.get("lines of code", {}).get(name))
            for name, now in sorted(rooms(root / PACKAGE).items())
        ],
        "modules of the core": [
            Figure(name, now, goal, reached.get("modules of the core", {}).get(name))
            for name, now in crossings(root / PACKAGE, patterns).items()
        ],
    }


def _table(title: str, figures: Sequence[Figure]) -> Iterator[str]:
    yield f"{title:<24} {'now':>7} {'target':>7}"
    for figure in figures:
        yield f"{figure.name:<24} {figure.now:>7,} {figure.target or 0:>7,}"
    yield f"{'all':<24} {sum(figure.now for figure in figures):>7,} {sum(figure.target or 0 for figure in figures):>7,}"


def _kept(figure: Figure) -> int:
    """Return the most that a figure may be from now on: its target, or above that the lowest that was reached."""
    lowest = figure.now if figure.reached is None else min(figure.now, figure.reached)
    return max(lowest, figure.target or 0)


def main(arguments: Sequence[str]) -> int:
    """Print the problems of a repository, or with `--write` its tables; return 1 if there are problems."""
    write = "--write" in arguments
    root = next((Path(argument) for argument in arguments if argument != "--write"), ROOT)
    tables = measure(root)
    if write:
        kept = {title: {figure.name: _kept(figure) for figure in figures} for title, figures in tables.items()}
        (root / REACHED).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        for title, figures in tables.items():
            print(*_table(title, figures), "", sep="\n")
        tables = measure(root)
    problems = [
        f"{figure.name}: the number of {title} {figure.problem}"
        for title, figures in tables.items()
        for figure in figures
        if figure.problem
    ]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
