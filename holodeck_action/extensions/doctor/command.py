"""The command `doctor`."""

from __future__ import annotations

from typing import Any

import click

from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import HelpfulCommand
from holodeck_action.run.options.flags import ACCESS, SUITES, settings


@click.command(cls=HelpfulCommand)
@SUITES
@click.option("--online", is_flag=True, help="Also try to reach GitHub and the models of SUITEs; no model is called.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings("env-file", "requirements", *ACCESS)
@click.pass_obj
def doctor(caller: Caller, /, **given: Any) -> int:
    """Show what this installation and its job have, and what SUITEs need to run here.

    SUITEs are checked as `validate` does. Variables are shown by name, never with their value.

    Exit code 0: all suites can run; 2: a suite cannot run here.

    \b
    Examples:
      holodeck-action doctor
      holodeck-action doctor agent.yaml --online
    """
    from holodeck_action.extensions.doctor.report import examine

    return examine(given, caller)
