"""Builds docs/fields.md from the models' schemas and the commands' flags, the table of gates in docs/policy-file.md,
that of errors in docs/results.md, and that of keys in docs/security.md; `--check` only compares.

python -m scripts.build_field_reference [--check]
"""

from __future__ import annotations

import json
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import BaseModel

from holodeck_action.commands.command_line import cli
from holodeck_action.decide.error_table import ACTIONS, ErrorRow, table_rows
from holodeck_action.metrics.registry import built_in
from holodeck_action.run.options.action_inputs import INPUTS
from holodeck_action.suite.model.agent import AgentConfig, ProjectConfig
from holodeck_action.suite.model.base import FormatModel, Section
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.policy import GateMetric, Gates, Policy
from holodeck_action.suite.model.schema_marks import PLACE
from holodeck_action.suite.suite_schemas import all_subclasses, describe_fields
from holodeck_action.text.key_forms import KEY_FORMS
from holodeck_action.text.key_prefixes import KEY_PREFIXES

PAGE = Path(__file__).parents[1] / "docs" / "fields.md"
POLICY_PAGE = PAGE.with_name("policy-file.md")
RESULTS_PAGE = PAGE.with_name("results.md")
SECURITY_PAGE = PAGE.with_name("security.md")
Schema = dict[str, Any]

INTRO = """# Field reference

Every field of the files and every flag of the commands, with type, default, meaning and example. This page is generated
from the descriptions in the JSON schemas; `make fields` renews it. The guides explain how fields work together:
[agent.yaml](format.md), [metrics](metrics.md), [policy file](policy-file.md).

Numbers and truth values may also be written as `${VAR}` or as quoted text. A field with the default *required* must be
given. "Checked, not used" means that a bad value is an error and a good one has no effect here.
"""
FILES = (
    ("agent.yaml", AgentConfig, "The suite. `holodeck-action schema agent` prints its JSON schema."),
    ("holodeck-action.yaml", Policy, "The policy file. `holodeck-action schema policy` prints its JSON schema."),
    ("config.yaml", ProjectConfig, "Settings that several suites share ([configuration files](format.md))."),
)
BOUNDS = (("ge", "≥"), ("minimum", "≥"), ("gt", ">"), ("exclusiveMinimum", ">"), ("le", "≤"), ("maximum", "≤"))
TABLE = "| field | type | default | meaning | example |\n|---|---|---|---|---|"
PLAIN = re.compile(r"[\w./$][^\[\]{},#\"'&*!|>%@`\\]*")
"""Matches texts that YAML reads unchanged without quotes."""
VALUES = {"INTEGER RANGE": "whole number", "FLOAT RANGE": "number", "TEXT": "text", "PATH": "path"}
NAMES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
}


def build_page() -> str:
    """Return the text of docs/fields.md."""
    parts = [INTRO]
    written: set[type[BaseModel]] = set()
    for title, root, about in FILES:
        parts.append(f"## {title}\n\n{about}\n")
        for model in models_below(root):
            parts.extend(_blocks(model, written))
    parts.append("## Commands\n\nA flag takes precedence over an input, an input over the policy file.\n")
    parts.extend(_command_section(name, command) for name, command in commands_below(cli))
    return "\n".join(parts)


def with_gate_table(page: str) -> str:
    """Return the text of docs/policy-file.md with the table of gates renewed."""
    flags = {item.policy_key: f"`--{item.name}`" for item in INPUTS}
    rows = []
    for name, field in schema_of(Gates)["properties"].items():
        if name == "metrics":
            bounds = schema_of(GateMetric)["properties"]
            rows += [cells(f"`metrics.NAME.{key}`", "", "", bound["description"]) for key, bound in bounds.items()]
        else:
            rows.append(cells(f"`{name}`", _default(field), flags.get(f"gates.{name}", ""), field["description"]))
    before, head, rest = page.partition(_GATES)
    return before + head + "\n".join(rows) + "\n\n" + rest.partition("\n\n")[2]


def with_error_table(page: str) -> str:
    """Return the text of docs/results.md with the table of errors renewed."""
    before, head, rest = page.partition(_ERRORS)
    return before + head + "\n".join(map(_error_row, table_rows())) + "\n\n" + rest.partition("\n\n")[2]


def with_key_table(page: str) -> str:
    """Return the text of docs/security.md with the tables of forms of keys and of their prefixes renewed."""
    prefixes: dict[str, list[str]] = {}
    for prefix in KEY_PREFIXES:
        begin = re.match(prefix.pattern, prefix.example)
        prefixes.setdefault(prefix.provider, []).append(f"`{begin[0] if begin else prefix.signs[0]}`")
    tables = {
        _FORMS: [cells(form.name, form.known_by) for form in KEY_FORMS],
        _PREFIXES: [cells(provider, ", ".join(shown)) for provider, shown in prefixes.items()],
    }
    for head, rows in tables.items():
        before, found, rest = page.partition(head)
        page = before + found + "\n".join(rows) + "\n\n" + rest.partition("\n\n")[2]
    return page


def _error_row(row: ErrorRow) -> str:
    statuses = f" with status {', '.join(map(str, row.statuses))}" if row.statuses else ""
    codes = ", ".join(f"`{code}`" for code in row.codes) + statuses
    return cells(row.about, codes, ", ".join(row.doors), row.meaning, ACTIONS[row.actor].partition(":")[0])


_ERRORS = "| what happened | codes | at | meaning | who must act |\n|---|---|---|---|---|\n"
_FORMS = "| a key is | known by |\n|---|---|\n"
_PREFIXES = "| provider | its keys begin with |\n|---|---|\n"
_GATES = "| key | default | flag | what it bounds |\n|---|---|---|---|\n"


def models_below(annotation: Any, found: dict[type[BaseModel], None] | None = None) -> dict[type[BaseModel], None]:
    """Return every model that an annotation contains, in the order of fields; `found` collects them."""
    found = {} if found is None else found
    if annotation is Metric:
        for metric in built_in().classes.values():
            models_below(metric, found)
    elif isinstance(annotation, Section):
        models_below(annotation.kind, found)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in found:
            found[annotation] = None
            for field in annotation.model_fields.values():
                models_below(field.annotation, found)
    else:
        for part in typing.get_args(annotation):
            models_below(part, found)
    return found


def _blocks(model: type[BaseModel], written: set[type[BaseModel]]) -> Iterator[str]:
    """Yield the tables of a model and of the models from which it inherits fields, each once."""
    schema = schema_of(model)
    owners = [owner for owner in model.__mro__ if issubclass(owner, BaseModel) and _own_fields(owner)]
    for owner in owners:
        if owner in written:
            continue
        written.add(owner)
        about = " ".join((owner.__doc__ or "").partition("\n\n")[0].split())
        others = [other for other in owner.__mro__[1:] if other in owners]
        shared = f" It also has the fields of {_links(other.__name__ for other in others)}." if others else ""
        rows = "\n".join(_row_text(name, schema["properties"][name], schema) for name in _own_fields(owner))
        yield f"### {owner.__name__}\n\n{about}{shared}\n\n{TABLE}\n{rows}\n"


def schema_of(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema()
    describe_fields(schema, model, {known.__name__: known for known in all_subclasses(FormatModel)})
    described: Schema = schema["$defs"][model.__name__] if "$ref" in schema else schema  # A model may contain itself.
    return described


def _own_fields(owner: type[BaseModel]) -> list[str]:
    return [name for name in owner.__annotations__ if name in getattr(owner, "model_fields", {})]


def _links(names: typing.Iterable[str]) -> str:
    *first, last = (f"[{name}](#{name.lower()})" for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def _row_text(name: str, field: Schema, schema: Schema) -> str:
    default = "*required*" if name in schema.get("required", ()) else _default(field)
    meaning = field.get("description") or ("Says of which kind the entry is." if "const" in field else "")
    return cells(f"`{name}`", _type_text(field), default, meaning, _example(field))


def cells(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(field: Schema) -> str:
    value = field.get("default")
    return "" if value in (None, [], {}, ()) else f"`{_value_text(value)}`"


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) and value.strip() == value else json.dumps(value, ensure_ascii=False)


def _example(field: Schema) -> str:
    """Return the example in the description, else a choice other than the default, else the default."""
    if examples := field.get("examples"):
        return f"`{_yaml(examples[0])}`"
    choices = [entry for part in _parts(field) for entry in part.get("enum", ())]
    if any(part.get("type") == "boolean" for part in _parts(field)):
        choices = [True, False]
    other = next((choice for choice in choices if choice != field.get("default")), field.get("default"))
    return "" if other in (None, [], {}, ()) or isinstance(other, dict) else f"`{_yaml(other)}`"


def _yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, str) and PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _parts(field: Schema) -> list[Schema]:
    """Return the alternatives of a field, without null and the empty text."""
    options = field.get("anyOf") or field.get("oneOf")
    if options is None:
        return [] if field.get("type") == "null" or field.get("const") == "" else [field]
    return [part for option in options for part in _parts(option)]


def _type_text(field: Schema) -> str:
    found = dict.fromkeys(_one_type(part) for part in _parts(field))
    return " or ".join(found) or "any value"


def _one_type(part: Schema) -> str:
    if PLACE in part:
        return "[metric](metrics.md)"
    if "$ref" in part:
        return _links([part["$ref"].rpartition("/")[2]])
    if "const" in part:
        return f"`{part['const']}`"
    if "enum" in part:
        return ", ".join(f"`{choice}`" for choice in part["enum"])
    kind = part.get("type")
    if isinstance(kind, list):
        return "text"
    if kind == "array":
        items = _type_text(part["items"]) if part.get("items") else "any value"
        return f"list of {items}"
    if kind == "object" and isinstance(values := part.get("additionalProperties"), dict) and values:
        return f"mapping to {_type_text(values)}"
    bounds = ", ".join(f"{sign} {part[key]:g}" for key, sign in BOUNDS if key in part)
    return f"{NAMES.get(str(kind), 'any value')}{', ' if bounds else ''}{bounds}"


def commands_below(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield name and command for each command of a group; nested ones are named `group command`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands_below(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def parameters_of(command: click.Command) -> list[click.Parameter]:
    """Return the parameters of a command, including those of extensions, without those for help."""
    return [
        parameter
        for parameter in command.get_params(click.Context(command))
        if parameter.name not in ("help", "help_all")
    ]


def _command_section(name: str, command: click.Command) -> str:
    about = " ".join((command.help or "").partition("\n\n")[0].replace("\b", "").split())
    rows = [_flag_row(parameter) for parameter in parameters_of(command)]
    return (
        f"### holodeck-action {name}\n\n{about}\n\n| flag | value | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def _flag_row(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return cells(f"`{(parameter.name or '').upper()}`", "", "")
    assert isinstance(parameter, click.Option)
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    context = click.Context(click.Command("any"))
    value = "" if parameter.is_flag else parameter.make_metavar(context)
    return cells(names, VALUES.get(value, value and f"`{value}`"), parameter.help or "")


def main(arguments: list[str]) -> int:
    page = build_page()
    if "--check" in arguments:
        fresh = PAGE.read_text(encoding="utf-8") == page
        print("docs/fields.md is as built" if fresh else "docs/fields.md is not as built: run make fields")
        return 0 if fresh else 1
    PAGE.write_text(page, encoding="utf-8")
    POLICY_PAGE.write_text(with_gate_table(POLICY_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    RESULTS_PAGE.write_text(with_error_table(RESULTS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SECURITY_PAGE.write_text(with_key_table(SECURITY_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
