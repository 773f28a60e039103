"""What is wrong with a suite, in a form that points at the line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holodeck_action.suite.marks import SourceMark


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect of a suite's files.

    Attributes:
        mark: where it stands; None when no file can be pointed at.
        field: readable path such as `test_cases[3].turns[0].input`; empty when the file as a whole is meant.
        message: what is wrong and what is allowed, without the value of a secret.
    """

    mark: SourceMark | None
    field: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.mark or ""), self.field, self.message) if part)


class SuiteError(Exception):
    """A suite cannot be used. `problems` holds every defect, sorted by file and position."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems), key=_position))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def _position(problem: Problem) -> tuple[str, int, int, str, str]:
    mark = problem.mark
    place = (mark.file, mark.line, mark.column) if mark else ("", 0, 0)
    return (*place, problem.field, problem.message)


def field_path(path: Sequence[str | int]) -> str:
    """Write a path readably: `test_cases[3].turns[0].input`, keys that are not words in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[\w-]+", part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text
