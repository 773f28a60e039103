"""Checks that the tests have no more lines of code than `tests/weight.json` has; `make lint` runs it.

    python -m scripts.check_weight [--write]

The figures of that file only fall. `--write` lowers the number of lines to what there is; `python -m scripts.test_costs
--write` lowers the CPU of the tiers, in units of the start of a bare Python.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.code_lines import code_lines

ROOT = Path(__file__).parent.parent
FILE = ROOT / "tests" / "weight.json"
LINES = "lines of code"


def lines_of_tests(root: Path) -> int:
    """Return the lines of code of all test modules of a repository."""
    return sum(code_lines(file.read_text(encoding="utf-8")) for file in (root / "tests").rglob("*.py"))


def lower(file: Path, figures: Mapping[str, int]) -> None:
    """Write those figures into a file of weights that are lower than the ones it has."""
    known: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))
    lowest = {name: min(number, figures.get(name, number)) for name, number in known.items()}
    file.write_text(json.dumps(lowest, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Print a sentence and return 1 if the tests have become heavier; lower the number with `--write`."""
    lines = lines_of_tests(ROOT)
    if "--write" in arguments:
        lower(FILE, {LINES: lines})
    allowed = json.loads(FILE.read_text(encoding="utf-8"))[LINES]
    if lines <= allowed:
        return 0
    print(
        f"tests: has {lines:,} lines of code, {lines - allowed:,} more than tests/weight.json allows: "
        "delete tests that prove what another one proves"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
