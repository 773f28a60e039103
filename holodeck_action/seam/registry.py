"""The extensions of this installation, and their contributions by name."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from glob import glob
from importlib import import_module
from typing import Any

from holodeck_action.seam.manifest import (
    Cards,
    Command,
    Conversations,
    Document,
    Extension,
    Format,
    Framework,
    HistoryFunctions,
    Key,
    Library,
    Metric,
    Observer,
    Option,
    PairFunctions,
    StepCommand,
    Table,
    Target,
    Tool,
    Users,
)

ENTRY_POINTS = "holodeck_action.extensions"
"""The entry point group in which another installed package names its `Extension`, as `module:name`."""
_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "extensions")
_PACKAGE = "holodeck_action.extensions"
_MANIFEST = "manifest"


class ExtensionError(Exception):
    """An extension cannot be used; the message is one sentence."""


@cache
def own_extensions() -> tuple[Extension, ...]:
    """Return this package's extensions, sorted by name."""
    names = sorted(os.path.basename(os.path.dirname(file)) for file in glob(f"{_FOLDER}/*/{_MANIFEST}.py"))
    return tuple(import_module(f"{_PACKAGE}.{name}.{_MANIFEST}").EXTENSION for name in names)


@cache
def foreign_extensions() -> tuple[Extension, ...]:
    """Return the extensions of other packages, sorted by name; used only for names that this package lacks.

    Raises:
        ExtensionError: one of them cannot be imported, is not an `Extension`, or has the name of another extension.
    """
    # Reading what is installed takes longer than most commands.
    from importlib.metadata import entry_points

    found: dict[str, Extension] = {}
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        package = "" if point.dist is None else f" of the package {point.dist.name}"
        try:
            extension = point.load()
        except Exception as error:
            raise ExtensionError(f"the extension {point.name}{package} cannot be imported: {error}") from error
        if not isinstance(extension, Extension) or extension.name != point.name:
            raise ExtensionError(f"the extension {point.name}{package} is not an Extension of that name: {point.value}")
        if extension.name in found or any(extension.name == own.name for own in own_extensions()):
            raise ExtensionError(f"the extension {point.name}{package} has a name that another extension has")
        found[extension.name] = extension
    return tuple(found.values())


def commands() -> dict[str, Command]:
    """Return the commands that this package's extensions define, by name."""
    return _commands(own_extensions())


def _commands(extensions: Iterable[Extension]) -> dict[str, Command]:
    return {command.name: command for extension in extensions for command in extension.commands}


def tools() -> dict[str, Tool]:
    """Return the types of tools that this package's extensions define, by name of the type."""
    return {tool.type: tool for extension in own_extensions() for tool in extension.tools}


def metrics() -> dict[tuple[str, str], Metric]:
    """Return the metrics that this package's extensions define, by type and name."""
    return {(metric.type, metric.name): metric for extension in own_extensions() for metric in extension.metrics}


def libraries() -> dict[str, Library]:
    """Return the libraries of metrics that this package's extensions define, by name."""
    return {library.name: library for extension in own_extensions() for library in extension.libraries}


def past() -> HistoryFunctions | None:
    """Return the functions for the history of runs; None if no extension has them."""
    return next((extension.past for extension in own_extensions() if extension.past is not None), None)


def cards() -> Cards | None:
    """Return the functions for judge cards; None if no extension has them."""
    return next((extension.cards for extension in own_extensions() if extension.cards is not None), None)


def results() -> str:
    """Return the reference to the function that decides results of other programs; empty if no extension has it."""
    return next((extension.results for extension in own_extensions() if extension.results), "")


def users() -> Users | None:
    """Return the functions for simulated users; None if no extension has them."""
    return next((extension.users for extension in own_extensions() if extension.users is not None), None)


def pairs() -> PairFunctions | None:
    """Return the functions that compare two answers; None if no extension has them."""
    return next((extension.pairs for extension in own_extensions() if extension.pairs is not None), None)


def frameworks() -> dict[str, Framework]:
    """Return the agent frameworks that this package's extensions define, by name."""
    return {made.name: made for extension in own_extensions() for made in extension.frameworks}


def observer() -> Observer | None:
    """Return the functions that receive and read agents' spans; None if no extension has them."""
    return next((extension.observer for extension in own_extensions() if extension.observer is not None), None)


def conversations() -> dict[str, Conversations]:
    """Return the kinds of conversations that can be targets, by prefix of the target."""
    return {made.name: made for extension in own_extensions() for made in extension.conversations}


def targets() -> dict[str, Target]:
    """Return the targets that this package's extensions define, by the key of their mapping."""
    return {made.key: made for extension in own_extensions() for made in extension.targets}


def tables() -> dict[str, Table]:
    """Return the kinds of case files that this package's extensions read, by suffix."""
    return _tables(own_extensions())


def _tables(extensions: Iterable[Extension]) -> dict[str, Table]:
    return {table.suffix: table for extension in extensions for table in extension.tables}


def formats() -> dict[str, Format]:
    """Return the formats that this package's extensions add to `export`, by name."""
    return {made.name: made for extension in own_extensions() for made in extension.formats}


def services() -> dict[str, str]:
    """Return the classes that publish on services besides GitHub, by name of the service."""
    return {name: publish for extension in own_extensions() for name, publish in extension.services.items()}


def steps() -> dict[str, StepCommand]:
    """Return the commands of a step that this package's extensions add, by name."""
    return {made.name: made for extension in own_extensions() for made in extension.steps}


def documents() -> dict[str, Document]:
    """Return the documents whose schemas this package's extensions define, by name."""
    return {made.name: made for extension in own_extensions() for made in extension.documents}


def options(command: str) -> tuple[Option, ...]:
    """Return the options that this package's extensions add to a command."""
    return tuple(option for extension in own_extensions() for option in extension.options if command in option.of)


def sections() -> dict[str, Key]:
    """Return the sections of agent.yaml that this package's extensions read, by name."""
    return {key.name: key for extension in own_extensions() for key in extension.keys}


def section_type(name: str) -> str | None:
    """Return the reference to the type of a section of agent.yaml; None if no extension reads the section."""
    found = sections().get(name)
    return None if found is None else found.to


def simulation_type() -> str | None:
    """Return the reference to the type of `simulate` in a case; None if no extension plays users."""
    found = users()
    return None if found is None else found.settings


def names() -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the name of each module of another product that this package's extensions implement, with a mapping from
    the module's names to our objects (`module:name`).
    """
    for extension in own_extensions():
        yield from extension.names.items()


def stages(setting_names: Container[str]) -> Iterator[Any]:
    """Yield the `Stages` class of each extension that has a setting or a key named in `setting_names`."""
    for extension in own_extensions():
        names = (*(option.setting for option in extension.options), *(key.name for key in extension.keys))
        if extension.stages and any(name in setting_names for name in names):
            yield resolve(extension.stages)


def unknown_phrase() -> str:
    """Return the rest of a message that begins with an unknown name; the message lists the installed extensions."""
    names = ", ".join(extension.name for extension in own_extensions()) or "none"
    return f"is not known to this installation, which has these extensions: {names}"


def unsupported_phrase(formats: Sequence[str]) -> str:
    """Return the predicate of a sentence about a case file that cannot be read; `formats` are the built-in suffixes."""
    extensions = (*own_extensions(), *foreign_extensions())
    suffixes = (*formats, *(table.suffix for extension in extensions for table in extension.tables))
    names = ", ".join(extension.name for extension in extensions) or "none"
    return f"is not supported (allowed: {', '.join(suffixes)}); installed extension packages: {names}"


def find_command(name: str) -> Command | None:
    """Return the command `name` of any extension; None if no extension has it.

    Raises:
        ExtensionError: an extension of another package cannot be used.
    """
    return commands().get(name) or _commands(foreign_extensions()).get(name)


def find_table(suffix: str) -> Table | None:
    """Return the kind of case file with a suffix, of any extension; None if no extension reads it.

    Raises:
        ExtensionError: an extension of another package cannot be used.
    """
    return tables().get(suffix) or _tables(foreign_extensions()).get(suffix)


def resolve(reference: str) -> Any:
    """Return the object at `module:name`."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
