"""Refuses modules that import each other in a circle, also in functions and under TYPE_CHECKING; `make lint` runs it.

python -m scripts.check_circles [ROOT]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from scripts.budget import PACKAGE, ROOT, imports


def circle(root: Path) -> list[str]:
    """Return the names of the modules of a circle, the first of them again at the end; empty if there is none."""
    files = {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
        for file in (root / PACKAGE).rglob("*.py")
    }
    graph = {}
    for name, file in files.items():
        found = (part if part in files else part.rpartition(".")[0] for part in imports(file))
        graph[name] = {*found} & {*files} - {name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        modules: list[str] = error.args[1]
        return modules
    return []


def main(arguments: Sequence[str] = ()) -> int:
    """Print a circle of a repository; return 1 if there is one."""
    found = circle(Path(arguments[0]) if arguments else ROOT)
    if found:
        print(f"these modules import each other: {' <- '.join(found)}; move what they share to another module")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
