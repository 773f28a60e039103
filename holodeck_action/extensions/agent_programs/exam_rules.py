"""What the checks of a suite need before the first trial."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter
from holodeck_action.extensions.agent_programs.adapters.catalogue import ADAPTERS
from holodeck_action.extensions.agent_programs.checks import (
    CalledMetric,
    ChangedMetric,
    CommandMetric,
    WorkspaceCheck,
)
from holodeck_action.extensions.agent_programs.texts import WorkspaceTextMetric
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.suite.values import Case, Turn
from holodeck_action.text.plain import excerpt

_MOST_NAMED = 5


def checks_of(turn: Turn) -> list[WorkspaceCheck | WorkspaceTextMetric]:
    """Return the checks of a workspace that a turn has."""
    return [spec.config for spec in turn.metrics if isinstance(spec.config, WorkspaceCheck | WorkspaceTextMetric)]


def check_suite(adapter: Adapter, cases: Sequence[Case]) -> None:
    """Check that what the checks name exists.

    Raises:
        TargetError: hidden files are missing, or a check names the shell of another program, which is never called.
    """
    shells = {made.shell.lower() for made in ADAPTERS.values()} - {"", adapter.shell.lower()}
    for case in cases:
        for check in (check for turn in case.turns for check in checks_of(turn)):
            where = f"case {excerpt(case.name or case.id)}"
            if isinstance(check, CommandMetric) and check.hidden is not None and not check.hidden.exist:
                raise TargetError(f"{where}: the hidden files {check.hidden.path} do not exist")
            if isinstance(check, CalledMetric) and adapter.shell and check.called.tool.lower() in shells:
                raise TargetError(
                    f"{where}: {adapter.name} has no tool {excerpt(check.called.tool)}; its shell is {adapter.shell}"
                )


def exam_notices(cases: Sequence[Case], fixture: Path | None, suite_files: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence if the agent can change an exam that it takes, and one if the suite is in its workspace."""
    if fixture is not None and holds_suite(fixture, suite_files):
        yield (
            "the workspace contains the suite, so that the agent can read what is expected of it: put the files that "
            "it works with into another folder"
        )
    found = [case.name or case.id for case in cases if any(map(_has_open_exam, case.turns))]
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        names = ", ".join(map(excerpt, found[:_MOST_NAMED]))
        yield (
            f"the agent can change its own exam in {names}{more}, such as conftest.py or package.json: add "
            "`changed: {only: [...]}` beside `command`, and no other changes get into the exam"
        )


def holds_suite(fixture: Path, suite_files: Iterable[Path]) -> bool:
    """Return whether a file of a suite is in the folder of a workspace."""
    root = os.path.realpath(fixture)
    return any(Path(os.path.realpath(file)).is_relative_to(root) for file in suite_files)


def _has_open_exam(turn: Turn) -> bool:
    """Return whether a turn has a command, but no check that says which changes get into its exam."""
    checks = checks_of(turn)
    is_limited = any(isinstance(check, ChangedMetric) and check.changed.only is not None for check in checks)
    return not is_limited and any(isinstance(check, CommandMetric) for check in checks)


def has_exams(cases: Sequence[Case]) -> bool:
    """Return whether a case has a command."""
    return any(True for _ in _commands(cases))


def _commands(cases: Sequence[Case]) -> Iterator[CommandMetric]:
    checks = (check for case in cases for turn in case.turns for check in checks_of(turn))
    return (check for check in checks if isinstance(check, CommandMetric))


def hidden_places(cases: Sequence[Case]) -> Iterator[Path]:
    """Yield the files and folders with the hidden files of all commands.

    Raises:
        OSError: one is outside of the checkout.
    """
    yield from {check.hidden.place for check in _commands(cases) if check.hidden is not None}
