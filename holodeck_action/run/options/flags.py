"""Options that several commands share, and the help on exit codes; this module imports no heavy modules."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from holodeck_action import __version__
from holodeck_action.run.options.action_inputs import DECLARED, INPUTS, PUBLISH_INPUTS, SHARED
from holodeck_action.run.options.command_help import complete_file
from holodeck_action.run.options.declarations import Input
from holodeck_action.run.options.input_kinds import FILE, FLAG, FOLDER, FOLDERS, HISTORY, RESULTS, Kind
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EPILOG = """\b
Exit codes:
  0  every gate passed
  1  a gate is violated
  2  configuration or usage error, nothing was run
  3  incomplete: the agent or an evaluation could not be run
  4  stopped: deadline, budget or signal; a partial report was written
"""

PUBLISH_EPILOG = f"{EPILOG}  5  passed, but something could not be published (--require-publish)\n"


SUITES = click.argument("suites", nargs=-1, metavar="[SUITE]...", shell_complete=complete_file)


LAST_RESULTS = Path(".holodeck/last/results.json")
"""The results file of a run without an output folder."""


class FiniteRange(click.FloatRange):
    """The click type of a finite number in a range; unlike the base class, it refuses NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert a string to a number; see `click.ParamType.convert`."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class KindType(click.ParamType):
    """The click type of a string that a `Kind` can parse; the value stays a string."""

    def __init__(self, kind: Kind) -> None:
        self.name, self._kind = kind.metavar.lower(), kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check a string and return it; see `click.ParamType.convert`."""
        try:
            return str(self._kind.read(value))
        except ValueError:
            self.fail(f"{value!r} is not allowed (allowed: {self._kind.allowed}).", param, ctx)


class PathType(click.ParamType):
    """The click type of a path relative to the caller's folder (click's own type uses the process's folder)."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> GivenPath:
        """Convert a string to a path; see `click.ParamType.convert`."""
        if isinstance(value, GivenPath):
            return value
        assert ctx is not None
        given = GivenPath(Path(value), ctx.obj.cwd)
        if os.path.exists(given) and not os.access(given, os.R_OK):
            self.fail(f"Path {click.format_filename(value)!r} is not readable.", param, ctx)
        return given

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete the path."""
        return complete_file(ctx, param, incomplete)


PATH = PathType()


class HistoryType(click.ParamType):
    """The click type of a history's location: a folder, or `branch:NAME` on GitHub."""

    name = "dir"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> GivenPath | str:
        """Convert a string to a folder's path, or return `branch:NAME` unchanged; see `click.ParamType.convert`."""
        try:
            read = HISTORY.read(value)
        except ValueError:
            self.fail(f"{value!r} is not allowed (allowed: {HISTORY.allowed}).", param, ctx)
        return read if isinstance(read, str) else PATH.convert(value, param, ctx)


Command = Callable[..., Any]


def _show_version(context: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested and not context.resilient_parsing:
        click.echo(f"holodeck-action, version {__version__}", file=context.obj.stdout, color=context.color)
        context.exit()


VERSION = click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    help="Show the version and exit.",
    callback=_show_version,
)


def type_of(kind: Kind) -> click.ParamType | None:
    """Return the click type for a kind's values; None if any string is accepted."""
    if kind.choices:
        return click.Choice(kind.choices)
    if kind.numbers is not None:
        minimum, maximum, exclusive, integer = kind.numbers
        return click.IntRange(int(minimum)) if integer else FiniteRange(minimum, maximum, min_open=exclusive)
    if kind is HISTORY:
        return HistoryType()
    if kind in (FOLDER, FOLDERS, FILE, RESULTS):
        return PATH
    return KindType(kind) if kind.metavar and not kind.many else None


SETTINGS = {item.name: item for item in DECLARED}
"""All settings by the name of their option."""

_OF_RUN = [item for item in DECLARED if item.of in ("run", "terminal")]
RUN = ("output-dir", *(item.name for item in _OF_RUN if item.help and item.name != "output-dir"))
PUBLISH = (*(item.name for item in PUBLISH_INPUTS if item.help), *SHARED)
GATES = tuple(item.name for item in INPUTS if item.group == "Gates" and item.key)
"""Names of the gates on one run."""
ACCESS = ("allow-path", "allow-plain-http", "allow-unsafe-forks")
"""Names of options that give suites access beyond their checkout."""
MODEL_CALLS = ("env-file", "requirements", *ACCESS, "record", "replay", "cache", "dry-run")
"""Names of options of commands that call models."""
JUDGES_ONLY = {
    "max-cost-usd": "Maximum cost of the judges, in US dollars [default: no limit].",
    "max-tokens": "Maximum number of tokens that the judges use [default: no limit].",
    "cache": "Cache verdicts of judges in this folder between runs.",
    "dry-run": "Only print the planned calls of judges.",
}
"""Help texts, by option, for commands that call only judges."""


def settings(*names: str, help_texts: Mapping[str, str] = MappingProxyType({})) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command; the help lists them in this order.

    Args:
        names: names of settings in `DECLARED`.
        help_texts: help texts that replace the usual ones, by name of the input.
    """

    def add_options(command: Command) -> Command:
        for name in reversed(names):
            command = _option(SETTINGS[name], help_texts.get(name))(command)
        return command

    return add_options


def _option(option: Input, text: str | None) -> Callable[[Command], Command]:
    kind = option.kind
    short = f"-{option.short}" if len(option.short) == 1 else f"--{option.short}"
    names = (short, f"--{option.name}") if option.short else (f"--{option.name}",)
    more: dict[str, Any] = {"multiple": True} if kind.many else {}
    if kind is FLAG and option.default == "true":
        # None if neither side is given.
        names, more = (f"--{option.name}/--no-{option.name}",), {"default": None}
    elif kind is FLAG:
        more = {"is_flag": True}
    elif kind is RESULTS:
        # Without a value: the results of the last run.
        more = {"is_flag": False, "flag_value": str(LAST_RESULTS)}
    return click.option(
        *names,
        option.setting,
        type=type_of(kind),
        metavar=option.metavar or kind.metavar or None,
        help=text or option.help,
        **more,
    )
