"""The command `greet`."""

from __future__ import annotations

import click

from holodeck_action.run.caller import Caller


@click.command()
@click.argument("somebody")
@click.pass_obj
def greet(caller: Caller, somebody: str) -> int:
    """Greet SOMEBODY."""
    caller.stdout.write(f"Hello, {somebody}!\n")
    return 0
