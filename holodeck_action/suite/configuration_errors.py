"""Why what was asked for cannot be run: sentences to print, and the places in files that they are about.

The command line imports it first: what is heavy is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holodeck_action.suite.errors import Problem, SourceMark
    from holodeck_action.suite.values import Suite


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A line of a file: what stands before the column of a problem, and what from there on. The text is untrusted."""

    before: str
    rest: str

    def through(self, change: Callable[[str], str]) -> Excerpt | None:
        """Return the line with a changed text, such as a redacted one; None where the column is lost in the change."""
        before, whole = change(self.before), change(self.before + self.rest)
        return Excerpt(before, whole[len(before) :]) if whole.startswith(before) else None


@dataclass(frozen=True, slots=True)
class Located:
    """A problem that stands in a file.

    Attributes:
        text: all of it, ready to print.
        folder: absolute folder that the mark's file is relative to.
        mark: where it stands.
        field: readable path such as `gates.min_pass_rate`; empty when the file as a whole is meant.
        message: what is wrong, without the place.
        excerpt: the line; None where it is not shown.
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
    """What was asked for cannot be run; `lines` say why, one problem each, `located` are those that stand in a file.

    `problems` are both, in the order in which they were found.
    """

    def __init__(self, problems: Sequence[str | Located]) -> None:
        self.problems = tuple(problems)
        self.lines = tuple(map(str, problems))
        self.located = tuple(problem for problem in problems if isinstance(problem, Located))
        super().__init__("\n".join(self.lines))


def located(problem: Problem, folder: Path, shown: str) -> str | Located:
    """Return a problem of a suite's files; a sentence alone where no file can be pointed at.

    Args:
        problem: what is wrong.
        folder: the suite's folder.
        shown: that folder as the reader would type it, empty for the current one.
    """
    from holodeck_action.suite.errors import printable

    if problem.mark is None:
        return str(problem)
    text = f"{shown}/{problem}" if shown else str(problem)
    return Located(text, folder, problem.mark, problem.field, printable(problem.message))


def suite_problem(suite: Suite, shown: str, mark: SourceMark | None, field: str, message: str) -> str | Located:
    """Return a problem that is told of the suite as a whole, though it may have a place."""
    text = f"{shown}/{suite.file}: {message}" if shown else f"{suite.file}: {message}"
    return text if mark is None else Located(text, suite.folder, mark, field, message)


def target_problems(
    suite: Suite, shown: str, message: str, placed: Sequence[Problem] = (), *, written: str | None
) -> list[str | Located]:
    """Return what is wrong with a target, at the places that name it.

    These are lines of agent.yaml that are known, such as those of tools. Else it is the policy file's `target` or,
    where the suite's own model is asked, its `model`. A target of the command line stands in no file.

    Args:
        suite: the suite.
        shown: its folder as the reader would type it, empty for the current one.
        message: what is wrong.
        placed: the same by lines; empty where none is known.
        written: the target of the command line; None where it names none.
    """
    from holodeck_action.suite.errors import Problem
    from holodeck_action.suite.model.targets import OWN_MODEL

    if placed:
        return [located(problem, suite.folder, shown) for problem in placed]
    if written is None and suite.target_mark is not None:
        return [located(Problem(suite.target_mark, "target", message), suite.folder, shown)]
    told = message if message.startswith("--target") else f"target: {message}"
    mark = suite.model_mark if written in (None, OWN_MODEL) else None
    return [suite_problem(suite, shown, mark, "target", told)]


def through(problem: str | Located, change: Callable[[str], str]) -> str | Located:
    """Return a problem with changed texts, such as redacted ones."""
    if isinstance(problem, str):
        return change(problem)
    excerpt = None if problem.excerpt is None else problem.excerpt.through(change)
    return replace(problem, text=change(problem.text), message=change(problem.message), excerpt=excerpt)
