"""Implements `command: race` in a workflow step, which reports the leaderboard of a race."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.race.command import race
from holodeck_action.extensions.race.leaderboard import markdown_text
from holodeck_action.extensions.race.racing import LEADERBOARD_FILE, run_command
from holodeck_action.reports.page.viewer import PAGE_FILE
from holodeck_action.run.caller import Caller
from holodeck_action.run.environments.extra_needs import NeededExtra
from holodeck_action.run.step_report import StepReport
from holodeck_action.suite.configuration_errors import ConfigurationError


def race_in_step(
    caller: Caller, arguments: Sequence[str], install: Callable[[Sequence[NeededExtra]], None]
) -> StepReport:
    """Race the variants given in the step's input `args`.

    Args:
        caller: the step.
        arguments: the arguments of the command.
        install: installs the extras that a suite needs.

    Raises:
        ConfigurationError: an option, a file, a variant or the suite cannot be used.
    """
    try:
        given = race.make_context("race", list(arguments), obj=caller).params
    except click.UsageError as error:
        raise ConfigurationError([f"args: {error.format_message()}"]) from error
    outcome, folder = run_command(given, caller, install)
    if outcome is None:
        return StepReport(ExitCode.PASSED, "only the plan was printed", "", {})
    files = {"report-path": folder / LEADERBOARD_FILE, "html-path": folder / PAGE_FILE}
    return StepReport(outcome.exit_code, f"{outcome.outcome}: {outcome.reason}", markdown_text(outcome), files)
