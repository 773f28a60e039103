"""Arguments a model gives to a tool: read within limits and checked against the tool's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.suite.errors import quoted
from holodeck_action.text.json_values import kind_of, parse_json
from holodeck_action.text.plain import excerpt, storable
from holodeck_action.tools.base import ToolError
from holodeck_action.tools.schemas import JsonSchema
from holodeck_action.workers.failures import CallError
from holodeck_action.workers.plain import Plain

_MOST_PROBLEMS = 5
"""Problems named in one message: a model repairs all of them at once, but need not read a thousand."""


class ArgumentSchema:
    """The schema of a tool's arguments, compiled once; references to other documents are not followed."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile the schema.

        Args:
            schema: JSON schema (draft 2020-12) of the arguments as one object.

        Raises:
            ValueError: it is no JSON schema; one clause says where and why.
        """
        self._schema = JsonSchema(schema)

    def check(self, args: Mapping[str, Any]) -> None:
        """Hold arguments to the schema.

        Raises:
            ToolError: `bad_arguments`, naming up to five problems.
        """
        found = self._schema.misfits(args, whole="the arguments", most=_MOST_PROBLEMS)
        if found:
            shown = "; ".join(misfit.problem for misfit in found)
            raise ToolError(f"the arguments do not fit: {shown}", "bad_arguments")


def parameters_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Read `parameters` of a tool: a schema per parameter, all of them required, or one schema of all as an object.

    Raises:
        ValueError: a parameter has no schema.
    """
    if parameters.get("type") == "object" and isinstance(parameters.get("properties"), Mapping):
        return dict(parameters)
    for name, schema in parameters.items():
        if not isinstance(schema, Mapping):
            raise ValueError(f"{quoted(name)} must be a JSON schema, such as {{type: string}}")
    return {
        "type": "object",
        "properties": dict(parameters),
        "required": list(parameters),
        "additionalProperties": False,
    }


def read_arguments(given: str | Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    """Read the arguments of a call.

    Args:
        given: JSON text as the model wrote it (no text at all is no arguments), or what was read from it.
        max_bytes: most bytes they may hold.

    Returns:
        Plain JSON values without lone surrogates.

    Raises:
        ToolError: `bad_arguments`: no JSON object, too deep, too large.
    """
    value: Any = given
    if isinstance(given, str):
        if len(given) > max_bytes:
            raise ToolError(f"the arguments hold more than {max_bytes} bytes", "bad_arguments")
        try:
            value = parse_json(given) if given.strip() else {}
        except ValueError as error:
            raise ToolError(f"the arguments are not JSON ({error}): {excerpt(given)}", "bad_arguments") from None
    if not isinstance(value, Mapping):
        raise ToolError(f"the arguments must be a JSON object, not {kind_of(value)}", "bad_arguments")
    try:
        plain: dict[str, Any] = storable(Plain(max_bytes).convert(value, "the arguments"))
    except CallError as error:
        # The path to the place can be as long as the nesting is deep.
        deep = "the arguments are nested too deeply, or hold what JSON cannot"
        problem = f"the arguments hold more than {max_bytes} bytes" if error.code == "too_large" else deep
        raise ToolError(problem, "bad_arguments") from None
    return plain
