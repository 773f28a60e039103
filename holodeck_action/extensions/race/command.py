"""The command `race`."""

from __future__ import annotations

from typing import Any

import click

from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import HelpfulCommand
from holodeck_action.run.options.flags import EPILOG, MODEL_CALLS, PATH, FiniteRange, settings

_ABOVE_0 = FiniteRange(0, min_open=True)
HELPS = {
    "output-dir": "Write the results here [default: holodeck-race].",
    "max-cost-usd": "Maximum cost of the race in US dollars, of all variants together [default: no limit].",
    "max-tokens": "Maximum number of tokens of the race, of all variants together [default: no limit].",
    "concurrency": "Maximum number of conversations at the same time, of all variants together [default: 10].",
    "dry-run": "Only print the planned calls of all variants.",
}


@click.command(cls=HelpfulCommand, epilog=EPILOG)
@click.argument("suite", required=False, metavar="[SUITE]")
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY=VALUE",
    help="A value of an axis: model, instructions (a file), target, temperature, …; repeat it. The grid is raced.",
)
@click.option("--variants", type=PATH, metavar="FILE", help="YAML file of named variants, instead of --vary.")
@click.option("--objective", metavar="NAME", help="What to maximize: pass_rate, or a metric [default: pass_rate].")
@click.option("--max-cost-per-case", type=_ABOVE_0, help="Limit of the variants that are left, in US dollars.")
@click.option("--max-p95-ms", type=_ABOVE_0, help="Limit of the variants that are left, in milliseconds.")
@click.option("--cheapest", is_flag=True, help="Choose the cheapest of the variants that cannot be told apart.")
@settings(
    *("target", "case", "limit", "repeat", "min-pass", "output-dir", "resume", "html"),
    *("concurrency", "run-timeout", "max-cost-usd", "max-tokens", *MODEL_CALLS),
    help_texts=HELPS,
)
@click.pass_obj
def race(caller: Caller, /, **given: Any) -> int:
    """Race variants of SUITE (default: agent.yaml), and drop those that cannot be the best.

    All variants answer the same cases in the same random order. The best variant of the full grid is dropped with a
    probability of at most 5 %.

    \b
    Examples:
      holodeck-action race --vary model=gpt-6.1-sol --vary model=gpt-6-luna
      holodeck-action race agent.yaml --vary instructions=a.md --vary instructions=b.md --vary temperature=0 --dry-run
      holodeck-action race --variants variants.yaml --cheapest --max-cost-usd 5
    """
    from holodeck_action.extensions.race.racing import race_variants

    return race_variants(given, caller)
