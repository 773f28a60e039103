"""The command `optimize`."""

from __future__ import annotations

from typing import Any

import click

from holodeck_action.extensions.race.command import HELPS
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import HelpfulCommand
from holodeck_action.run.options.flags import EPILOG, MODEL_CALLS, settings

_HELPS = {
    **HELPS,
    "output-dir": "Write the results here [default: holodeck-optimize].",
    "max-cost-usd": "Maximum cost of all races together in US dollars [default: no limit].",
    "max-tokens": "Maximum number of tokens of all races together [default: no limit].",
    "dry-run": "Only print the planned calls of all races.",
}


@click.command(cls=HelpfulCommand, epilog=EPILOG)
@click.argument("suite", required=False, metavar="[SUITE]")
@click.option("--axis", multiple=True, metavar="PATH", help="Only this axis of evaluations.optimizer.axes; repeat it.")
@click.option("--objective", metavar="NAME", help="pass_rate, or a metric [default: evaluations.optimizer.loss].")
@click.option("--max-cycles", type=click.IntRange(1), help="Maximum number of cycles through the axes.")
@click.option("--numeric-max-trials", type=click.IntRange(1), help="Maximum number of values of an axis.")
@click.option("--seed", type=int, help="Seed of the choice of the cases that are held out.")
@click.option("--apply", is_flag=True, help="Change agent.yaml if the gain is shown. Refused in CI.")
@settings(
    *("target", "repeat", "output-dir", "resume", "html"),
    *("concurrency", "run-timeout", "max-cost-usd", "max-tokens", *MODEL_CALLS),
    help_texts=_HELPS,
)
@click.pass_obj
def optimize(caller: Caller, /, **given: Any) -> int:
    """Find better values of the numeric axes in evaluations.optimizer of SUITE (default: agent.yaml).

    The values of one axis after the other are raced on 70 % of the cases. The gain is measured on the other 30 %.

    \b
    Examples:
      holodeck-action optimize --dry-run
      holodeck-action optimize agent.yaml --axis model.temperature --max-cost-usd 5
      holodeck-action optimize --apply
    """
    from holodeck_action.extensions.race.optimizing import optimize_suite

    return optimize_suite(given, caller)
