"""The commands of `history`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import CommandGroup
from holodeck_action.run.options.flags import PATH

if TYPE_CHECKING:
    from holodeck_action.text.given_paths import GivenPath


@click.group(cls=CommandGroup)
def history() -> None:
    """Show earlier runs: trends, flaky cases, drift."""


@history.command(name="show")
@click.argument("folder", type=PATH, default=".", metavar="[DIR]")
@click.option(
    "--format", "form", type=click.Choice(["console", "markdown", "json"]), default="console", show_default=True
)
@click.pass_obj
def show_history(caller: Caller, /, folder: GivenPath, form: str) -> int:
    """Show the history in DIR (default: here): the last 20 runs of each suite, and their trend.

    Exit code 0: shown; 2: there is no history, or it cannot be read.
    """
    from holodeck_action.extensions.history.history import show_history

    return show_history(folder, form, caller)


@history.command(name="import")
@click.argument("results", nargs=-1, required=True, type=PATH)
@click.option("--into", type=PATH, required=True, metavar="DIR", help="Folder of the history.")
@click.pass_obj
def import_history(caller: Caller, /, results: tuple[GivenPath, ...], into: GivenPath) -> int:
    """Take RESULTS (results.json files, or folders of them) into a history; runs that it has are skipped.

    Exit code 0: imported; 2: RESULTS or the history cannot be used.
    """
    from holodeck_action.extensions.history.history import import_runs

    return import_runs(results, into, caller)
