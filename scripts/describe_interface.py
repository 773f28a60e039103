"""Describes what docs/stability.md promises to keep: exit codes, inputs, options, fields of files, names for Python.

A later version keeps it if it has all keys and all members of lists, with the same values.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, get_args, is_typeddict

import click
import yaml

import holodeck_action
import holodeck_action.metrics
from holodeck_action.cli import main
from holodeck_action.commands.command_classes import ALIASES
from holodeck_action.commands.command_line import cli
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.seam import manifest
from scripts.build_field_reference import commands_below, parameters_of

ROOT = Path(__file__).parents[1]


def interface() -> dict[str, Any]:
    """Return all that is stable."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    commands = [*commands_below(cli), *((name, cli.commands[command]) for name, command in ALIASES.items())]
    return {
        "exit_codes": {code.name: int(code) for code in ExitCode},
        "inputs": {name: declared.get("default") for name, declared in action["inputs"].items()},
        "outputs": sorted(action["outputs"]),
        "commands": {name: _options(command) for name, command in commands},
        "documents": {name: sorted(set(_paths(_schema(name)))) for name in _documents()},
        "python": {name: _parameters(getattr(holodeck_action, name)) for name in vars(holodeck_action)["__all__"]},
        "metrics": sorted(name for name in dir(holodeck_action.metrics) if name[0].isupper()),
        "seam": {name: _parameters(each) for name, each in vars(manifest).items() if _is_own(each)},
    }


def _options(command: click.Command) -> list[str]:
    return sorted(text for each in parameters_of(command) for text in (*each.opts, *each.secondary_opts))


def _documents() -> tuple[str, ...]:
    [choice] = (each.type for each in parameters_of(cli.commands["schema"]) if isinstance(each.type, click.Choice))
    return tuple(choice.choices)


def _schema(name: str) -> Any:
    stdout = StringIO()
    assert main(["schema", name], {}, ROOT, StringIO(), stdout, StringIO()) == 0
    return json.loads(stdout.getvalue())


def _paths(schema: Any) -> Iterator[str]:
    """Yield the keys of a schema and of its definitions, and also those of properties that are a definition."""
    yield from _keys(schema)
    objects = (each.get("properties", {}) for each in (schema, *schema.get("anyOf", ())))
    for key, part in (entry for properties in objects for entry in properties.items()):
        for name in re.findall(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(part)):
            yield from _keys(schema["$defs"][name], f".{key}")


def _keys(schema: Any, at: str = "") -> Iterator[str]:
    """Yield the path of each property, and of each value that it may have."""
    if isinstance(schema, list):
        for each in schema:
            yield from _keys(each, at)
        return
    if not isinstance(schema, dict):
        return
    for name, part in schema.items():
        if name in ("$defs", "definitions"):
            for definition, inside in part.items():
                yield from _keys(inside, definition)
        elif name == "properties":
            for key, inside in part.items():
                yield f"{at}.{key}"
                yield from _keys(inside, f"{at}.{key}")
        elif name == "enum":
            yield from (f"{at} = {json.dumps(value)}" for value in part)
        elif name == "const":
            # The version of a file's format is raised with it.
            yield from () if at.endswith("schema_version") else (f"{at} = {json.dumps(part)}",)
        elif name not in ("default", "examples"):
            yield from _keys(part, at)


def _parameters(of: Any) -> list[str]:
    if is_typeddict(of):
        return sorted(of.__annotations__)
    return [] if get_args(of) else sorted(_names(inspect.signature(of, eval_str=inspect.isfunction(of))))


def _names(signature: inspect.Signature) -> Iterator[str]:
    """Yield the names of a function's arguments; those of `**options: Unpack[TYPE]` are the keys of the type."""
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and get_args(parameter.annotation):
            yield from get_args(parameter.annotation)[0].__annotations__
        else:
            yield name


def _is_own(value: Any) -> bool:
    return inspect.isclass(value) and value.__module__ == manifest.__name__
