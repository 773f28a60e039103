"""Options that several commands share, and what their exit codes mean. Imported first: nothing heavy stands here."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

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


RATE = Finite(0.0, 1.0)
COUNT = click.IntRange(min=0)
AT_LEAST_ONE = click.IntRange(min=1)
SECONDS = Finite(min=0.0, min_open=True)
DOLLARS = Finite(min=0.0)


Command = Callable[..., Any]


def options_added(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, in the order of its help."""

    def added(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return added


ENV_FILE = click.option("--env-file", type=click.Path(path_type=Path), help="Read variables from this file.")

reach_options = options_added(
    click.option(
        "--allow-path",
        "allow_paths",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Let suites read files below this folder, too.",
    ),
    click.option("--allow-plain-http", is_flag=True, help="Let keys go to other machines over http://, unencrypted."),
)
"""The options by which suites may do more than what lies in their checkout."""

RESULTS_FOLDER = click.option(
    "-o",
    "--output-dir",
    type=click.Path(path_type=Path),
    help="Write results.json, verdict.json, report.md and junit.xml here.",
)

gate_options = options_added(
    click.option("--min-pass-rate", type=RATE, help="Share of cases that must pass [default: 1.0]."),
    click.option("--min-pass-rate-lower-bound", type=RATE, help="Lower end of the pass rate's 95 % interval to reach."),
    click.option("--min-completeness", type=RATE, help="Share of evaluations that must happen [default: 1.0]."),
    click.option("--max-errors", type=COUNT, help="Cases that may end in error."),
    click.option("--max-flaky", type=COUNT, help="Cases that may both pass and fail over their trials."),
)
"""The options that set gates."""

judge_limits = options_added(
    click.option("--max-cost-usd", type=DOLLARS, help="US dollars the judges may cost [default: no limit]."),
    click.option("--max-tokens", type=COUNT, help="Tokens the judges may take [default: no limit]."),
)
"""The options that limit what judges may take where nobody else is asked."""

report_options = options_added(
    click.option("--template", type=click.Path(path_type=Path), help="Make report.md with this Jinja template."),
    click.option(
        "--fail-on",
        type=click.Choice(["violation", "never"]),
        help="When to end with an exit code: violation, for every verdict but passed [default], or never.",
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
        click.option("--record", type=click.Path(path_type=Path), metavar="DIR", help="Keep every model call here."),
        click.option(
            "--replay",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Answer model calls from here; no key is needed.",
        ),
        click.option("--cache", type=click.Path(path_type=Path), metavar="DIR", help=f"Keep {cached} between runs."),
        click.option("--dry-run", is_flag=True, help=f"Only print {planned}."),
    )
