"""The commands of `history`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import CommandGroup
from holodeck_action.run.options.flags import PATH

if TYPE_CHECKING:
    from holodeck_action.text.given_paths import GivenPath


class HistoryGroup(CommandGroup):
    """The commands of `history`; if a folder replaces the command, its history is shown."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; see `click.Group.resolve_command`."""
        if args[0] not in self.commands and (ctx.obj.cwd / args[0]).is_dir():
            args = ["show", *args]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            error.message = error.message.replace("No such command", "No such folder or command", 1)
            raise


@click.group(cls=HistoryGroup, subcommand_metavar="DIR | COMMAND [ARGS]...")
def history() -> None:
    """Show earlier runs: trends, flaky cases, drift.

    With a folder DIR instead of a command: show the history in it.

    \b
    Examples:
      holodeck-action history runs
      holodeck-action history show runs --format markdown
      holodeck-action history import results --into runs
    """


@history.command(name="show")
@click.argument("folder", type=PATH, default=".", metavar="[DIR]")
@click.option(
    "--format", "format_name", type=click.Choice(["console", "markdown", "json"]), default="console", show_default=True
)
@click.pass_obj
def show_history(caller: Caller, /, folder: GivenPath, format_name: str) -> int:
    """Show the history in DIR (default: here): the last 20 runs of each suite, and their trend.

    Exit code 0: shown; 2: there is no history, or it cannot be read.
    """
    from holodeck_action.extensions.history.history import show_history

    return show_history(folder, format_name, caller)


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
