"""Options that several commands share, and what their exit codes mean. Imported first: nothing heavy stands here."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from holodeck_action import __version__
from holodeck_action.run.options.action_inputs import BOTH, INPUTS, PUBLISH_INPUTS, RUN_INPUTS, Input
from holodeck_action.run.options.command_help import completed_files
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

PUBLISH_EPILOG = f"{EPILOG}  5  passed, but --require-publish, and something could not be published\n"


SUITES = click.argument("suites", nargs=-1, metavar="[SUITE]...", shell_complete=completed_files)


LAST_RESULTS = Path(".holodeck/last/results.json")
"""Where a run without an output folder keeps its results."""


class Finite(click.FloatRange):
    """A range that holds neither NaN, which passes every comparison of the base class, nor infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number that a text is; see `click.ParamType.convert`."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Written(click.ParamType):
    """A text that has a form."""

    def __init__(self, kind: Kind) -> None:
        self.name, self._kind = kind.word.lower(), kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text; see `click.ParamType.convert`."""
        try:
            return str(self._kind.read(value))
        except ValueError:
            self.fail(f"{value!r} is not allowed (allowed: {self._kind.allowed}).", param, ctx)


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

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete the path."""
        return completed_files(ctx, param, incomplete)


PATH = Given()


class HistoryPlace(click.ParamType):
    """A folder, or a branch of GitHub."""

    name = "dir"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> GivenPath | str:
        """Return the folder, or the branch as it is written; see `click.ParamType.convert`."""
        try:
            read = HISTORY.read(value)
        except ValueError:
            self.fail(f"{value!r} is not allowed (allowed: {HISTORY.allowed}).", param, ctx)
        return read if isinstance(read, str) else PATH.convert(value, param, ctx)


Command = Callable[..., Any]


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
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
    """Return what click makes of the values of a kind; None for any text."""
    if kind.choices:
        return click.Choice(kind.choices)
    if kind.span is not None:
        least, most, above, whole = kind.span
        return click.IntRange(int(least)) if whole else Finite(least, most, min_open=above)
    if kind is HISTORY:
        return HistoryPlace()
    if kind in (FOLDER, FOLDERS, FILE, RESULTS):
        return PATH
    return Written(kind) if kind.word and not kind.many else None


_SETTINGS = {item.name: item for item in INPUTS}

RUN = ("output-dir", *(item.name for item in RUN_INPUTS if item.help and item.name != "output-dir"))
PUBLISH = (*(item.name for item in PUBLISH_INPUTS if item.help), *BOTH)
GATES = tuple(item.name for item in INPUTS if item.group == "Gates" and item.key)
"""Gates on one run."""
CHANGES = tuple(
    item.name
    for item in INPUTS
    if item.group == "Comparison and history" and item.key and item.name not in ("baseline", "on-missing-baseline")
)
"""Gates on what changed since the base, and what they do."""
REACH = ("allow-path", "allow-plain-http")
"""By which suites may do more than what lies in their checkout."""
CALLS = ("env-file", "requirements", *REACH, "record", "replay", "cache", "dry-run")
"""Of a command that asks models."""
JUDGES_ONLY = {
    "max-cost-usd": "US dollars that the judges may cost [default: no limit].",
    "max-tokens": "Tokens that the judges may use [default: no limit].",
    "cache": "Keep verdicts of judges between runs.",
    "dry-run": "Only print the planned calls of judges.",
}
"""What options say where only judges are asked."""


def settings(*names: str, helps: Mapping[str, str] = MappingProxyType({})) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, in the order of its help.

    Args:
        names: of `INPUTS`.
        helps: what some of them say here, by name.
    """

    def added(command: Command) -> Command:
        for name in reversed(names):
            command = _option(_SETTINGS[name], helps.get(name))(command)
        return command

    return added


def _option(item: Input, text: str | None) -> Callable[[Command], Command]:
    kind = item.kind
    names = (f"-{item.short}", f"--{item.name}") if item.short else (f"--{item.name}",)
    more: dict[str, Any] = {"multiple": True} if kind.many else {}
    if kind is FLAG and item.default == "true":
        # Nothing is said where neither side is given.
        names, more = (f"--{item.name}/--no-{item.name}",), {"default": None}
    elif kind is FLAG:
        more = {"is_flag": True}
    elif kind is RESULTS:
        # Given without a value: the last run's.
        more = {"is_flag": False, "flag_value": str(LAST_RESULTS)}
    return click.option(
        *names,
        item.setting,
        type=type_of(kind),
        metavar=item.metavar or kind.word or None,
        help=text or item.help,
        **more,
    )
