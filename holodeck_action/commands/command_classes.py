"""Click classes of the program and its commands; commands of extensions are imported when they are called."""

from __future__ import annotations

import click

from holodeck_action.run.options.command_help import CommandGroup, HelpfulCommand
from holodeck_action.seam import registry

COMMAND_GROUPS = {
    "Start": (),
    "Run": ("validate", "run", "merge"),
    "Look": ("report", "export"),
    "Compare": ("compare", "gate"),
    "Judge": ("rejudge",),
    "Repository": ("publish", "schema"),
}
"""Commands of the core by their title in `--help`; the commands of extensions follow in their groups."""
ALIASES = {"decide": "gate"}
"""Earlier names of commands, which still work and are not listed."""


class Program(CommandGroup):
    """The program, with its own commands and those of extensions; `--help` lists commands without importing them."""

    def groups(self) -> dict[str, list[str]]:
        """Return the names of commands by the title of their group in the help."""
        found = {title: list(names) for title, names in COMMAND_GROUPS.items()}
        for command in registry.commands().values():
            found.setdefault(command.group, []).append(command.name)
        return found

    def summaries(self, ctx: click.Context) -> dict[str, str]:
        """Return the first sentence of each command's help."""
        own = {name: command.get_short_help_str(limit=1000) for name, command in self.commands.items()}
        return own | {name: command.help for name, command in registry.commands().items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands that come with this package."""
        return [*self.commands, *registry.commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; see `click.Group.get_command`.

        Raises:
            click.UsageError: an extension that may define the command cannot be used.
        """
        own = self.commands.get(ALIASES.get(cmd_name, cmd_name))
        if own is not None:
            return own
        try:
            found = registry.find_command(cmd_name)
        except registry.ExtensionError as error:
            raise click.UsageError(str(error), ctx) from error
        command: click.Command | None = None if found is None else registry.resolve(found.to)
        return command


OWN_FORMATS = {"json": "results.json of this version"}


class ExportCommand(HelpfulCommand):
    """The command `export`, with the formats of all extensions and their options."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; see `click.Command.get_params`."""
        helps = OWN_FORMATS | {name: made.help for name, made in registry.formats().items()}
        form = click.Option(
            ["--format"],
            type=click.Choice(sorted(helps)),
            required=True,
            help="; ".join(f"{name}: {helps[name]}" for name in sorted(helps)) + ".",
        )
        *params, help_option = super().get_params(ctx)
        added = [option for name in sorted(registry.formats()) for option in format_options(name)]
        return [params[0], form, *params[1:], *added, help_option]


def format_options(format_name: str) -> tuple[click.Option, ...]:
    """Return the options that a format adds to `export`."""
    made = registry.formats().get(format_name)
    found: tuple[click.Option, ...] = registry.resolve(made.options) if made is not None and made.options else ()
    return found


OWN_DOCUMENTS = ("agent", "policy", "request", "reply", "results", "verdict", "report", "comparison", "judge-card")


class SchemaCommand(HelpfulCommand):
    """The command `schema`, with the documents of all extensions."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; see `click.Command.get_params`."""
        document = click.Argument(["document"], type=click.Choice([*OWN_DOCUMENTS, *registry.documents()]))
        return [document, *super().get_params(ctx)]
