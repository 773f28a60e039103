"""Arguments a model gives to a tool: read within limits and checked against the tool's schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from holodeck_action.agents.tools.base import ToolError
from holodeck_action.agents.untrusted import excerpt, kind_of, parse_json, unknown_key
from holodeck_action.results.storable import storable
from holodeck_action.suite.errors import field_path
from holodeck_action.usercode.failures import CallError
from holodeck_action.usercode.plain import Plain

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

_MOST_PROBLEMS = 5
"""Problems named in one message: a model repairs all of them at once, but need not read a thousand."""

_PATTERN_S = 0.5
"""Seconds one pattern of the schema may look at one text, which nobody has vetted."""


class ArgumentSchema:
    """The schema of a tool's arguments, compiled once; references to other documents are not followed."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile the schema.

        Args:
            schema: JSON schema (draft 2020-12) of the arguments as one object.

        Raises:
            ValueError: it is no JSON schema; one clause says where and why.
        """
        from jsonschema.exceptions import SchemaError
        from referencing import Registry

        validator = _validator_class()
        try:
            validator.check_schema(schema)
        except SchemaError as error:
            where = field_path([*error.path])
            raise ValueError(f"{where}: {excerpt(error.message)}" if where else excerpt(error.message)) from None
        self._schema = schema
        self._validator: Validator = validator(schema, registry=Registry())

    def check(self, args: Mapping[str, Any]) -> None:
        """Hold arguments to the schema.

        Raises:
            ToolError: `bad_arguments`, naming up to five problems.
        """
        from referencing.exceptions import Unresolvable

        problems: dict[str, None] = {}
        try:
            for error in self._validator.iter_errors(args):
                problems.update(dict.fromkeys(_wordings(error)))
                if len(problems) >= _MOST_PROBLEMS:
                    break
        except TimeoutError:
            problems = {"a text is too long or too repetitive for the schema's pattern": None}
        except RecursionError:
            problems = {"they are nested too deeply": None}
        except Unresolvable as error:
            problems = {f"the schema refers to what it does not hold: {excerpt(str(error))}": None}
        if problems:
            shown = "; ".join(list(problems)[:_MOST_PROBLEMS])
            raise ToolError(f"the arguments do not fit: {shown}", "bad_arguments")


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


def _validator_class() -> Any:
    """Return the validator of the current draft, whose patterns run under a time limit."""
    # Only suites with tools pay for the imports.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    return extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    import regex
    from jsonschema.exceptions import ValidationError

    try:
        fits = not isinstance(instance, str) or regex.search(pattern, instance, timeout=_PATTERN_S)
    except regex.error:
        yield ValidationError(f"the schema's pattern does not compile: {pattern}")
        return
    if not fits:
        yield ValidationError(f"does not match {pattern}")


def _wordings(error: ValidationError) -> list[str]:
    """Say in a model's words what a problem is; values are not repeated, as they may be long."""
    where = field_path([*error.absolute_path]) or "the arguments"
    wanted: Any = error.validator_value
    match error.validator:
        case "required":
            held = error.instance if isinstance(error.instance, dict) else {}
            return [f"{_inside(error, name)} is missing" for name in wanted if name not in held]
        case "additionalProperties" if wanted is False and isinstance(error.instance, dict):
            schema: Any = error.schema
            known = list(schema.get("properties", {}))
            prefix = f"{field_path([*error.absolute_path])}: " if error.absolute_path else ""
            return [f"{prefix}{unknown_key(key, known)}" for key in error.instance if key not in known]
        case "type":
            kinds = " or ".join([wanted] if isinstance(wanted, str) else wanted)
            return [f"{where} must be of type {kinds}, not {kind_of(error.instance)}"]
        case "enum":
            return [f"{where} must be one of {excerpt(', '.join(map(repr, wanted)))}"]
        case "pattern":
            return [f"{where} {excerpt(error.message)}"]
        case "anyOf" | "oneOf":
            return [f"{where} fits none of the allowed forms"]
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf":
            return [f"{where} breaks {error.validator} {wanted}"]
        case _:
            return [f"{where} breaks {excerpt(str(error.validator), 40)} of the schema"]


def _inside(error: ValidationError, name: str) -> str:
    return excerpt(field_path([*error.absolute_path, name]))
