"""The command `calibrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import HelpfulCommand
from holodeck_action.run.options.flags import EPILOG, JUDGES_ONLY, MODEL_CALLS, PATH, settings, type_of
from holodeck_action.run.options.input_kinds import RATE

if TYPE_CHECKING:
    pass


@click.command(cls=HelpfulCommand, epilog=EPILOG)
@click.argument("labels", type=PATH, metavar="LABELS.csv")
@click.argument("suite", required=False, metavar="[SUITE]")
@click.option("--metric", help="Name of the metric that the labels are about [default: the only one with a judge].")
@click.option("--results", type=PATH, help="Take answers and verdicts from this results.json; call no model.")
@click.option("--threshold", type=type_of(RATE), help="Passing score for people and judge [default: the metric's].")
@click.option(
    "--format", "form", type=click.Choice(["console", "markdown", "json"]), default="console", show_default=True
)
@settings("output-dir", help_texts={"output-dir": "Write judge-card.json here."})
@click.option(
    "--min-agreement-lower-bound",
    type=type_of(RATE),
    help="Lowest accepted lower end of the agreement's 95 % interval.",
)
@click.option("--min-kappa-lower-bound", type=type_of(RATE), help="Lowest accepted lower end of κ's 95 % interval.")
@settings(
    *("concurrency", "max-cost-usd", "max-tokens", *MODEL_CALLS),
    help_texts={**JUDGES_ONLY, "concurrency": "Maximum number of answers judged concurrently [default: 10]."},
)
@click.pass_obj
def calibrate(caller: Caller, /, **given: Any) -> int:
    """Compare a judge with the human labels in LABELS.csv, and report how well they agree.

    A metric of SUITE (default: agent.yaml) judges the labelled answers. With --results the verdicts come from a record,
    and no model is called.

    \b
    Examples:
      holodeck-action calibrate labels.csv --results results/results.json --metric faithfulness
      holodeck-action calibrate labels.csv agent.yaml -o card --min-kappa-lower-bound 0.6
    """
    from holodeck_action.extensions.calibration.calibrate import calibrate_judge

    return calibrate_judge(given, caller)
