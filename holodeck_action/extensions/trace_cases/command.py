"""The commands of `cases`."""

from __future__ import annotations

from typing import Any

import click

from holodeck_action.extensions.trace_cases.conditions import ATTRIBUTE_BELOW, ATTRIBUTE_VALUE, REASONS
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import CommandGroup
from holodeck_action.run.options.flags import ACCESS, PATH, settings


@click.group(cls=CommandGroup)
def cases() -> None:
    """Write cases of conversations that happened.

    \b
    Examples:
      holodeck-action cases from-traces night.jsonl -o incidents.yaml
      holodeck-action cases from-traces traces --suite agent.yaml --thumbs-down user.rating=down -o incidents.yaml
    """


@cases.command(name="from-traces")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o", "--output", "output", type=PATH, required=True, metavar="FILE", help="Write the cases to this file."
)
@click.option("--suite", metavar="SUITE", help="Leave out conversations whose inputs this suite has already.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Maximum number of cases.")
@click.option("--seed", type=int, default=0, show_default=True, help="Number that decides between equal conversations.")
@click.option(
    "--pick",
    type=click.Choice([*REASONS]),
    multiple=True,
    help="Pick only for this reason; can be given several times [default: every reason].",
)
@click.option(
    "--thumbs-down",
    type=ATTRIBUTE_VALUE,
    multiple=True,
    help="Attribute of spans, and its value if a user disliked the answer.",
)
@click.option(
    "--low-score", type=ATTRIBUTE_BELOW, multiple=True, help="Attribute of spans, and the number below which it is low."
)
@click.option("--embed", is_flag=True, help="For unlike, call the embedding model of SUITE instead of comparing words.")
@click.option("--names", type=PATH, metavar="FILE", help="Mask the names in this file, one on each line.")
@click.option("--accept", is_flag=True, help="Take the answers as expected answers.")
@settings(
    *("max-tokens", "env-file", *ACCESS),
    help_texts={"max-tokens": "Maximum number of tokens that --embed uses [default: no limit]."},
)
@click.pass_obj
def from_traces(caller: Caller, /, **given: Any) -> int:
    """Write conversations in FILEs (traces, or folders of them) as cases.

    Picks those with an error, a low score or a thumbs down, the longest ones, and those most unlike the cases of SUITE,
    in turn. Masks secrets and personal data, as far as their form shows it. This is no anonymisation: read every case
    before you commit it.

    Exit code 0: written; 2: FILEs or an option cannot be used, or no conversation is left; 3: the
    embedding model gave no answer.
    """
    from holodeck_action.extensions.trace_cases.from_traces import write_cases

    return write_cases(given, caller)
