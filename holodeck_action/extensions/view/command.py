"""The command `view`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import HelpfulCommand
from holodeck_action.run.options.flags import PATH

if TYPE_CHECKING:
    from holodeck_action.text.given_paths import GivenPath


@click.command(cls=HelpfulCommand)
@click.argument("results", nargs=-1, type=PATH)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Listen on this port [default: a free one].")
@click.option("--browser/--no-browser", default=True, help="Open a browser [default: yes].")
@click.pass_obj
def view(caller: Caller, /, results: tuple[GivenPath, ...], port: int, browser: bool) -> int:
    """Serve the viewer's pages of RESULTS (results.json files, folders of them, histories) on this machine.

    Without RESULTS: the runs in .holodeck/last, holodeck-results and other folders of the current folder, newest first.
    The page of a run in progress shows the finished cases. Runs that are chosen in the list are shown side by side.
    Nothing is sent anywhere. Ctrl-C ends with exit code 0.

    \b
    Examples:
      holodeck-action view
      holodeck-action view results --no-browser
    """
    from holodeck_action.extensions.view.view import view_runs

    return view_runs(results, port, browser, caller)
