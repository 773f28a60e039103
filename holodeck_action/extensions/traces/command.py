"""The command `drift`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import HelpfulCommand
from holodeck_action.run.options.flags import PATH

if TYPE_CHECKING:
    from holodeck_action.text.given_paths import GivenPath


@click.command(cls=HelpfulCommand)
@click.argument("results", type=PATH)
@click.option(
    "--before",
    multiple=True,
    required=True,
    type=PATH,
    metavar="RESULTS",
    help="Results of earlier conversations: a results.json, or a folder of them; can be given several times.",
)
@click.option(
    "--format", "form", type=click.Choice(["console", "markdown", "json"]), default="console", show_default=True
)
@click.option(
    "--issue",
    is_flag=True,
    help="Open or update an issue on GitHub if something is worse or the verdict is failed, and close it otherwise.",
)
@click.pass_obj
def drift(caller: Caller, results: GivenPath, before: tuple[GivenPath, ...], form: str, issue: bool) -> int:
    """Compare the conversations in RESULTS with earlier ones: pass rate and metrics.

    RESULTS is a results.json, or a folder of them. The conversations need not be the same: this is for traces of
    production, such as last night and the weeks before. Use `compare` for two runs of the same cases.

    Exit code 0: nothing is worse; 1: a number is worse; 2: RESULTS cannot be used; 3: there are too few conversations.
    With --issue, the verdict of RESULTS counts, too.
    """
    from holodeck_action.extensions.traces.drift_report import report_drift

    return report_drift(results, before, form, caller, issue=issue).exit_code
