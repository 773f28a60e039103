"""Errors of a request that cannot be run: the problems as sentences, with their positions in files.

Each command imports this module, so heavy imports are inside of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from holodeck_action.suite.errors import Problem, SourceMark
    from holodeck_action.suite.values import Suite


class Excerpt(Struct, frozen=True):
    """A line of a file, split at the column of a problem, where `after` begins. The text is untrusted."""

    before: str
    after: str

    def map_text(self, change: Callable[[str], str]) -> Excerpt | None:
        """Apply a change, such as redaction, to the line; return None if the change replaces a text that extends across
        the column."""
        before, whole = change(self.before), change(self.before + self.after)
        return Excerpt(before, whole[len(before) :]) if whole.startswith(before) else None


class LocatedProblem(Struct, frozen=True):
    """A problem with its position in a file.

    Attributes:
        text: the complete text, ready to print.
        folder: absolute folder to which the mark's file is relative.
        mark: the position.
        field: readable path such as `gates.min_pass_rate`; empty if the problem is about the whole file.
        message: the problem, without the position.
        excerpt: the line to show; None if no line is shown.
    """

    text: str
    folder: Path
    mark: SourceMark
    field: str
    message: str
    excerpt: Excerpt | None = None

    def __str__(self) -> str:
        return self.text


class ConfigurationError(Exception):
    """The request cannot be run. `problems` are the reasons, in the order in which they were found.

    `lines` are the problems as sentences; `located` are the problems with a position in a file.
    """

    def __init__(self, problems: Sequence[str | LocatedProblem]) -> None:
        self.problems = tuple(problems)
        self.lines = tuple(map(str, problems))
        self.located = tuple(problem for problem in problems if isinstance(problem, LocatedProblem))
        super().__init__("\n".join(self.lines))


def locate_problem(problem: Problem, folder: Path, display_path: str) -> str | LocatedProblem:
    """Return a problem of a suite's files with its position, or as a sentence if it has none.

    Args:
        problem: the problem.
        folder: the suite's folder.
        display_path: the suite's folder as the user would type it; empty if it is the working folder.
    """
    from holodeck_action.suite.errors import printable

    if problem.mark is None:
        return str(problem)
    text = f"{display_path}/{problem}" if display_path else str(problem)
    return LocatedProblem(text, folder, problem.mark, problem.field, printable(problem.message))


def suite_problem(
    suite: Suite, display_path: str, mark: SourceMark | None, field: str, message: str
) -> str | LocatedProblem:
    """Return a problem of the suite as a whole, with its position, or as a sentence if `mark` is None."""
    text = f"{display_path}/{suite.file}: {message}" if display_path else f"{suite.file}: {message}"
    return text if mark is None else LocatedProblem(text, suite.folder, mark, field, message)


def target_problems(
    suite: Suite, display_path: str, message: str, located: Sequence[Problem] = (), *, target_text: str | None
) -> list[str | LocatedProblem]:
    """Return the problems of a target with their positions.

    If `located` is not empty, its positions in agent.yaml are used. Otherwise the position is `target` in the policy
    file or, for the suite's own model, `model` in agent.yaml. The problem of a target from the command line has no
    position.

    Args:
        suite: the suite.
        display_path: the suite's folder as the user would type it; empty if it is the working folder.
        message: the problem.
        located: the same problem, once for each line of agent.yaml that it concerns; empty if no line is known.
        target_text: the target from the command line; None if the option is not given.
    """
    from holodeck_action.suite.errors import Problem
    from holodeck_action.suite.model.targets import OWN_MODEL

    if located:
        return [locate_problem(problem, suite.folder, display_path) for problem in located]
    if target_text is None and suite.target_mark is not None:
        return [locate_problem(Problem(suite.target_mark, "target", message), suite.folder, display_path)]
    told = message if message.startswith("--target") else f"target: {message}"
    mark = suite.model_mark if target_text in (None, OWN_MODEL) else None
    return [suite_problem(suite, display_path, mark, "target", told)]


def map_texts(problem: str | LocatedProblem, change: Callable[[str], str]) -> str | LocatedProblem:
    """Return a problem after applying a function, such as redaction, to its texts."""
    if isinstance(problem, str):
        return change(problem)
    excerpt = None if problem.excerpt is None else problem.excerpt.map_text(change)
    return replace(problem, text=change(problem.text), message=change(problem.message), excerpt=excerpt)
