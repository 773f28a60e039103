"""Click commands that write grouped help to the caller's standard output, and suggest similar command names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

import click

from holodeck_action.run.options.action_inputs import DECLARED, INPUTS
from holodeck_action.run.options.declarations import Group

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_NON_INPUTS = {
    "Judge": ("metric", "results", "threshold", "min_agreement_lower_bound", "min_kappa_lower_bound"),
    "Output": ("form", "help", "help_all"),
}
"""Names of options that are not in `DECLARED`, by group."""
OTHERS = "Other"
OPTION_GROUPS = {
    title: (*_NON_INPUTS.get(title, ()), *(item.setting for item in DECLARED if item.help and item.group == title))
    for title in get_args(Group)
    if title != OTHERS
}
_NOT_EVERYDAY = frozenset(item.setting for item in INPUTS if not item.everyday)
_MAX_UNGROUPED = 12
"""Maximum number of options that are listed without groups."""
_MAX_IN_HELP = 24
"""Maximum number of options that `--help` lists in full."""
_SHOWS_ALL = "holodeck_action.help_all"


def show_help(context: click.Context, option: click.Parameter, requested: bool) -> None:
    """Write the help of a command to the caller's standard output, and exit; do nothing if `requested` is false."""
    if requested and not context.resilient_parsing:
        context.meta[_SHOWS_ALL] = option.name == "help_all"
        click.echo(context.get_help(), file=context.obj.stdout, color=context.color)
        context.exit()


class HelpfulCommand(click.Command):
    """A command that writes its help to the caller's standard output instead of the process's.

    If the command has many options, `--help` lists the everyday ones, and `--help-all` lists all.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; see `click.Command.get_params`."""
        params = super().get_params(ctx)
        if sum(isinstance(parameter, click.Option) for parameter in params) <= _MAX_IN_HELP:
            return params
        every = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=show_help,
            help="Show all options and exit.",
        )
        return [*params, every]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; for an unknown option, the error names the commands that have it.

        Raises:
            click.UsageError: the arguments are invalid.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            root = ctx.find_root()
            commands = root.command.commands_by_name(root) if isinstance(root.command, CommandGroup) else {}
            having = [
                name
                for name, command in commands.items()
                if any(error.option_name in option.opts for option in command.get_params(root))
            ]
            if having:
                error.possibilities = None
                error.message += f"; commands that take it: {', '.join(having)}"
            raise

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the help option; see `click.Command.get_help_option`."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = show_help
        return option

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options to the help, in groups if there are many."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        # Since click 8.5 the help option has another name.
        names = ["help" if "--help" in option.opts else option.name or "" for option in options]
        records = [(name, option.get_help_record(ctx)) for name, option in zip(names, options, strict=True)]
        shown = [(name, record) for name, record in records if record is not None]
        if len(shown) <= _MAX_UNGROUPED:
            super().format_options(ctx, formatter)
            return
        listed = shown
        if any(name == "help_all" for name, _ in shown) and not ctx.meta.get(_SHOWS_ALL):
            listed = [(name, record) for name, record in shown if name not in _NOT_EVERYDAY]
        for title, members in group_names([name for name, _ in listed], OPTION_GROUPS):
            with formatter.section(f"{title} options" if title == OTHERS else title):
                formatter.write_dl([record for name, record in listed if name in members])
        if rest := len(shown) - len(listed):
            formatter.write_paragraph()
            formatter.write(f"{rest} more options: {ctx.command_path} --help-all\n")


class CommandGroup(HelpfulCommand, click.Group):
    """A group of commands, such as the program itself."""

    command_class = HelpfulCommand

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands, to the help."""
        click.Group.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, each with the whole first sentence of its help."""
        texts = self.summaries(ctx)
        groups = group_names(list(texts), self.groups())
        for title, names in groups:
            with formatter.section(title if len(groups) > 1 else "Commands"):
                formatter.write_dl([(name, texts[name]) for name in names])

    def groups(self) -> dict[str, list[str]]:
        """Return the names of commands by the title of their group in the help."""
        return {}

    def summaries(self, ctx: click.Context) -> dict[str, str]:
        """Return the first sentence of each command's help."""
        return {name: each.get_short_help_str(limit=1000) for name, each in self.commands_by_name(ctx).items()}

    def commands_by_name(self, ctx: click.Context) -> dict[str, click.Command]:
        """Return all commands of the group, by name."""
        return {name: command for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for an unknown name, the error suggests a similar one."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError as error:
            from difflib import get_close_matches

            meant = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if meant:
                error.message += f" Did you mean {meant[0]!r}?"
            raise


def group_names(names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[tuple[str, list[str]]]:
    """Return the names by title of their group, in the order of the groups; names without a group come last."""
    found = [(title, [name for name in members if name in names]) for title, members in groups.items()]
    known = {name for members in groups.values() for name in members}
    found.append((OTHERS, [name for name in names if name not in known]))
    return [(title, members) for title, members in found if members]


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return a completion that lets the shell complete the path of a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]
