"""Implements `command: drift` in a workflow step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from holodeck_action.extensions.traces.command import drift
from holodeck_action.extensions.traces.drift_report import report_drift
from holodeck_action.run.caller import Caller
from holodeck_action.run.environments.extra_needs import NeededExtra
from holodeck_action.run.step_report import StepReport
from holodeck_action.suite.configuration_errors import ConfigurationError


def drift_in_step(
    caller: Caller, arguments: Sequence[str], install: Callable[[Sequence[NeededExtra]], None]
) -> StepReport:
    """Compare the conversations given in the step's input `args`.

    Args:
        caller: the step.
        arguments: the arguments of the command.
        install: not used, since nothing runs.

    Raises:
        ConfigurationError: an option or the results cannot be used.
    """
    try:
        given = drift.make_context("drift", list(arguments), obj=caller).params
    except click.UsageError as error:
        raise ConfigurationError([f"args: {error.format_message()}"]) from error
    return report_drift(given["results"], given["before"], given["form"], caller, issue=given["issue"])
