"""JSON schemas of the suite, and what is wrong with values that a model wrote to fit them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holodeck_action.suite.errors import field_path
from holodeck_action.suite.model.patterns import pattern_problem
from holodeck_action.text.json_values import kind_of, unknown_key
from holodeck_action.text.plain import excerpt

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

_PATTERN_S = 0.5
"""Seconds one pattern of the schema may look at one text, which nobody has vetted."""


class Misfit(Struct, frozen=True):
    """One way in which a value does not fit: a clause that names the place, and the keyword of the schema it breaks."""

    problem: str
    schema_path: str


class JsonSchema:
    """A schema (draft 2020-12), compiled once; references to other documents are not followed."""

    def __init__(self, schema: Mapping[str, Any] | bool, words: Callable[[str], str] = excerpt) -> None:
        """Compile the schema.

        Args:
            schema: the schema.
            words: makes the beginning of what is wrong with it a line; that of a server's schema loses its secrets.

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
            raise ValueError(f"{where}: {words(error.message)}" if where else words(error.message)) from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if _names(schema, "unevaluatedProperties") and _names(schema, "patternProperties"):
            # The library would search keys that a model wrote for these patterns, without a limit of time.
            raise ValueError("unevaluatedProperties cannot be used with patternProperties; use additionalProperties")
        self._validator: Validator = validator(schema, registry=Registry())

    def misfits(self, value: Any, *, whole: str, most: int) -> Sequence[Misfit]:
        """Return what does not fit, at most `most` of it; empty when the value fits.

        Args:
            whole: what the value as a whole is called, such as `the arguments`.
            most: after how many to stop looking.
        """
        from referencing.exceptions import Unresolvable

        found: dict[str, Misfit] = {}
        try:
            for error in self._validator.iter_errors(value):
                schema_path = field_path([*error.absolute_schema_path])
                for problem in _wordings(error, whole):
                    found.setdefault(problem, Misfit(problem, schema_path))
                if len(found) >= most:
                    break
        except TimeoutError:
            return [Misfit("a text is too long or too repetitive for the schema's pattern", "pattern")]
        except RecursionError:
            return [Misfit("the nesting is too deep", "")]
        except Unresolvable as error:
            return [Misfit(f"the schema refers to what it does not hold: {excerpt(str(error))}", "$ref")]
        return list(found.values())[:most]


def _names(schema: Any, keyword: str) -> bool:
    """Tell whether a keyword stands anywhere in a schema."""
    if isinstance(schema, Mapping):
        return keyword in schema or any(_names(inner, keyword) for inner in schema.values())
    return isinstance(schema, list | tuple) and any(_names(inner, keyword) for inner in schema)


def _validator_class() -> Any:
    """Return the validator of the current draft, whose patterns run under a time limit."""
    # Only suites with schemas pay for the imports.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    timed = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    return extend(Draft202012Validator, timed)  # type: ignore[no-untyped-call]


def _found(pattern: str, text: str) -> bool:
    """Search a text for a pattern of the schema.

    Raises:
        TimeoutError: it takes too long.
        ValidationError: the pattern does not compile.
    """
    import regex
    from jsonschema.exceptions import ValidationError

    if _usable(pattern):
        return regex.search(pattern, text, timeout=_PATTERN_S) is not None
    raise ValidationError(f"the schema's pattern does not compile: {pattern}")


@lru_cache(maxsize=256)
def _usable(pattern: str) -> bool:
    return pattern_problem(pattern) is None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    try:
        fits = not isinstance(instance, str) or _found(pattern, instance)
    except ValidationError as error:
        yield error
        return
    if not fits:
        yield ValidationError(f"does not match {pattern}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    for pattern, inner in patterns.items() if isinstance(instance, dict) else ():
        try:
            matching = [key for key in instance if _found(pattern, key)]
        except ValidationError as error:
            yield error
            continue
        for key in matching:
            yield from validator.descend(instance[key], inner, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if not isinstance(instance, dict) or allowed is True:
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    try:
        others = [key for key in instance if key not in named and not any(_found(pattern, key) for pattern in patterns)]
    except ValidationError as error:
        yield error
        return
    if isinstance(allowed, Mapping):
        for key in others:
            yield from validator.descend(instance[key], allowed, path=key)
    elif others:
        yield ValidationError("additional properties")


def _wordings(error: ValidationError, whole: str) -> list[str]:
    """Say in a model's words what a problem is; values are not repeated, as they may be long."""
    where = field_path([*error.absolute_path]) or whole
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
