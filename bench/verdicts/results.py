"""The exit codes of the programs, kept in `results.json`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, json

FILE = Path(__file__).with_name("results.json")
Verdict: TypeAlias = Literal["right", "wrong green", "wrong red", "n/a"]


class Outcome(Struct, frozen=True, omit_defaults=True):
    """How a program ended in a scenario and its control; or what it does not offer."""

    program: str
    scenario: str
    code: int | None = None
    control: int | None = None
    """Exit code of the control, which runs unless the right verdict is green."""
    missing: str = ""

    def verdict(self, right: str) -> Verdict:
        """Return whether the outcome is right."""
        if self.missing:
            return "n/a"
        if right == "green":
            return "wrong red" if self.code else "right"
        if not self.code:
            return "wrong green"
        return "wrong red" if self.control else "right"


def read_results() -> tuple[Outcome, ...]:
    """Read the results; there are none before the first run."""
    return json.decode(FILE.read_bytes(), type=tuple[Outcome, ...]) if FILE.exists() else ()


def write_results(outcomes: Iterable[Outcome]) -> None:
    """Write the results, one a line."""
    lines = sorted(json.encode(each).decode() for each in outcomes)
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
