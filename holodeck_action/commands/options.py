"""Options that several commands share, and what their exit codes mean. Imported first: nothing heavy stands here."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from holodeck_action import __version__
from holodeck_action.text.given_paths import GivenPath

EPILOG = """\b
Exit codes:
  0  every gate passed
  1  a gate is violated
  2  configuration or usage error, nothing was run
  3  incomplete: the agent or an evaluation could not be run
  4  stopped: deadline, budget or signal; a partial report was written
"""

PUBLISH_EPILOG = f"{EPILOG}  5  passed, but --require-publish, and something could not be published\n"

SUITES = click.argument("suites", nargs=-1, metavar="[SUITE]...")


class Finite(click.FloatRange):
    """A range that holds neither NaN, which passes every comparison of the base class, nor infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number that a text is; see `click.ParamType.convert`."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Given(click.ParamType):
    """A path, which starts where the caller is; click's own looks for it where the process is."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> GivenPath:
        """Return the path that a text is; see `click.ParamType.convert`."""
        if isinstance(value, GivenPath):
            return value
        assert ctx is not None
        given = GivenPath(Path(value), ctx.obj.cwd)
        if os.path.exists(given) and not os.access(given, os.R_OK):
            self.fail(f"Path {click.format_filename(value)!r} is not readable.", param, ctx)
        return given


PATH = Given()
RATE = Finite(0.0, 1.0)
COUNT = click.IntRange(min=0)
AT_LEAST_ONE = click.IntRange(min=1)
SECONDS = Finite(min=0.0, min_open=True)
DOLLARS = Finite(min=0.0)


Command = Callable[..., Any]


def _show_help(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(context.get_help(), file=context.obj.stdout, color=context.color)
        context.exit()


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"holodeck-action, version {__version__}", file=context.obj.stdout, color=context.color)
        context.exit()


class _HelpToCaller(click.Command):
    """A command whose `--help` goes to the caller's standard output; click's own goes to that of the process."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option; see `click.Command.get_help_option`."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option


class Door(_HelpToCaller, click.Group):
    """The program: a group of such commands."""

    command_class = _HelpToCaller


VERSION = click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    help="Show the version and exit.",
    callback=_show_version,
)


def options_added(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, in the order of its help."""

    def added(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return added


ENV_FILE = click.option("--env-file", type=PATH, help="Read variables from this file.")

reach_options = options_added(
    click.option(
        "--allow-path",
        "allow_paths",
        multiple=True,
        type=PATH,
        metavar="DIR",
        help="Let suites also read files below this folder.",
    ),
    click.option(
        "--allow-plain-http", is_flag=True, help="Allow keys to be sent to other machines over http://, unencrypted."
    ),
)
"""The options by which suites may do more than what lies in their checkout."""

RESULTS_FOLDER = click.option(
    "-o",
    "--output-dir",
    type=PATH,
    help="Write results.json, verdict.json, report.md and junit.xml here.",
)

gate_options = options_added(
    click.option("--min-pass-rate", type=RATE, help="Share of cases that must pass [default: 1.0]."),
    click.option(
        "--min-pass-rate-lower-bound", type=RATE, help="Lowest accepted lower end of the pass rate's 95 % interval."
    ),
    click.option("--min-completeness", type=RATE, help="Share of planned evaluations that must happen [default: 1.0]."),
    click.option("--max-errors", type=COUNT, help="Cases that may end in error."),
    click.option("--max-flaky", type=COUNT, help="Cases that may have both passing and failing trials."),
)
"""The options that set gates."""

judge_limits = options_added(
    click.option("--max-cost-usd", type=DOLLARS, help="US dollars that the judges may cost [default: no limit]."),
    click.option("--max-tokens", type=COUNT, help="Tokens that the judges may use [default: no limit]."),
)
"""The options that limit what judges may take where nobody else is asked."""

report_options = options_added(
    click.option("--template", type=PATH, help="Render report.md with this Jinja template."),
    click.option(
        "--fail-on",
        type=click.Choice(["violation", "never"]),
        help="When to end with an exit code: violation, for every verdict except passed [default], or never.",
    ),
)
"""The options of a run's report and exit code."""


def call_options(*, cached: str, planned: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options of a command that asks models.

    Args:
        cached: what `--cache` keeps between runs.
        planned: what `--dry-run` prints.
    """
    return options_added(
        ENV_FILE,
        reach_options,
        click.option("--record", type=PATH, metavar="DIR", help="Record every model call here."),
        click.option(
            "--replay",
            type=PATH,
            metavar="DIR",
            help="Answer model calls from here; no key is needed.",
        ),
        click.option("--cache", type=PATH, metavar="DIR", help=f"Keep {cached} between runs."),
        click.option("--dry-run", is_flag=True, help=f"Only print {planned}."),
    )
