"""Validation of values against the suite's JSON Schemas, with messages that a model can act on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from holodeck_action.suite.errors import field_path
from holodeck_action.suite.model.patterns import pattern_problem
from holodeck_action.text.json_values import kind_of, unknown_key_clause
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import excerpt

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

_PATTERN_S = 0.5
"""Maximum seconds that one pattern of an untrusted schema may search one text."""


class Violation(Struct, frozen=True):
    """A violation of a schema.

    Attributes:
        problem: a clause with the path of the invalid part.
        schema_path: the path of the violated keyword in the schema.
        wanted: the value of that keyword in the schema.
        value: the part of the checked value that violates the keyword.
    """

    problem: str
    schema_path: str
    wanted: Any = None
    value: Any = None


class JsonSchema:
    """A compiled schema (draft 2020-12); references to other documents are not followed."""

    def __init__(
        self,
        schema: Mapping[str, Any] | bool,
        shorten: Callable[[str], str] = excerpt,
        *,
        is_user_supplied: bool = False,
    ) -> None:
        """Compile the schema.

        Args:
            schema: the schema.
            shorten: shortens an error message to one line; for schemas of servers it also masks secrets.
            is_user_supplied: whether the suite's author wrote the schema to check values. If so, `$schema` names the
                draft, `format` is checked, and each reference must refer to a part of the schema.

        Raises:
            ValueError: the schema is invalid; the message is a clause with path and reason.
        """
        from jsonschema.exceptions import SchemaError
        from referencing import Registry

        validator = _validator_class(_draft_validator(schema) if is_user_supplied else None)
        try:
            validator.check_schema(schema)
        except SchemaError as error:
            where = field_path([*error.path])
            raise ValueError(f"{where}: {shorten(error.message)}" if where else shorten(error.message)) from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if _contains_keyword(schema, "unevaluatedProperties") and _contains_keyword(schema, "patternProperties"):
            # The library would match these patterns against keys from a model without a time limit.
            raise ValueError("unevaluatedProperties cannot be used with patternProperties; use additionalProperties")
        formats = _format_checker(schema) if is_user_supplied else None
        if is_user_supplied:
            _check_references(schema)
        self._validator: Validator = validator(schema, registry=Registry(), format_checker=formats)

    def violations(self, value: Any, *, label: str, max_violations: int) -> Sequence[Violation]:
        """Return the violations of the schema in a value, at most `max_violations`; empty if the value is valid.

        Args:
            value: the value.
            label: name of the whole value in messages, such as `the arguments`.
            max_violations: maximum number of violations.
        """
        from referencing.exceptions import Unresolvable

        found: dict[str, Violation] = {}
        try:
            for error in self._validator.iter_errors(value):
                schema_path = field_path([*error.absolute_schema_path])
                for problem in _describe_error(error, label):
                    found.setdefault(problem, Violation(problem, schema_path, error.validator_value, error.instance))
                if len(found) >= max_violations:
                    break
        except TimeoutError:
            return [Violation("a text is too long or too repetitive for the schema's pattern", "pattern")]
        except RecursionError:
            return [Violation("the nesting is too deep", "")]
        except Unresolvable as error:
            return [Violation(f"the schema refers to an undefined definition: {excerpt(str(error))}", "$ref")]
        return list(found.values())[:max_violations]


def _contains_keyword(schema: Any, keyword: str) -> bool:
    """Return whether a keyword occurs anywhere in a schema."""
    if isinstance(schema, Mapping):
        return keyword in schema or any(_contains_keyword(inner, keyword) for inner in schema.values())
    return isinstance(schema, list | tuple) and any(_contains_keyword(inner, keyword) for inner in schema)


class _NoDraft:
    """A placeholder for the validator of a draft that the library does not know."""


def _draft_validator(schema: Mapping[str, Any] | bool) -> Any:
    """Return the validator of the draft that a schema names; None if it names none, so that the current draft applies.

    Raises:
        ValueError: there is no such draft.
    """
    name = schema.get("$schema") if isinstance(schema, Mapping) else None
    if name is None:
        return None
    from jsonschema.validators import validator_for

    unknown: Any = _NoDraft
    found = validator_for(schema, default=unknown) if isinstance(name, str) else unknown
    if found is unknown:
        raise ValueError(f"$schema: {excerpt(str(name))} is not a draft of JSON Schema")
    return found


def _is_date_time(text: str) -> bool:
    # RFC 3339, section 5.6; Python's parser of ISO 8601 also takes other forms.
    return bool(_RFC_3339.fullmatch(text)) and _parses(datetime.fromisoformat, text.upper().replace("Z", "+00:00"))


def _is_uri(text: str) -> bool:
    return bool(_SCHEME.match(text)) and not _NOT_IN_URI.search(text) and _parses(urlsplit, text)


def _parses(parse: Callable[[str], Any], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


_RFC_3339 = lazy_pattern(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DATE = lazy_pattern(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = lazy_pattern(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII)
_EMAIL = lazy_pattern(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = lazy_pattern(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")
_UUID = lazy_pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SCHEME = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NOT_IN_URI = lazy_pattern(r"[^\x21-\x7e]|[<>\"{}|\\^`]|%(?![0-9A-Fa-f]{2})")
_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": _is_date_time,
    "date": lambda text: bool(_DATE.fullmatch(text)) and _parses(date.fromisoformat, text),
    "time": lambda text: _TIME.fullmatch(text) is not None,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": lambda text: _HOST.fullmatch(text) is not None,
    "ipv4": lambda text: _parses(IPv4Address, text),
    "ipv6": lambda text: "%" not in text and _parses(IPv6Address, text),
    "uri": _is_uri,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}
"""The formats that are checked, each in time that grows with the length of the text."""


def _format_checker(schema: Any) -> Any:
    """Return a checker for the formats that a schema names.

    Raises:
        ValueError: the schema names a format that cannot be checked.
    """
    for name in _values(schema, "format"):
        if isinstance(name, str) and name not in _FORMATS:
            raise ValueError(f"the format {excerpt(name)} is not checked (allowed: {', '.join(_FORMATS)}); use pattern")
    from jsonschema import FormatChecker

    checker = FormatChecker(())
    for name, fits in _FORMATS.items():
        checker.checkers[name] = (partial(_fits, fits), ())
    return checker


def _fits(check: Callable[[str], bool], value: object) -> bool:
    return not isinstance(value, str) or check(value)


def _check_references(schema: Any) -> None:
    """Check that each reference refers to a part of the schema.

    Raises:
        ValueError: a reference names another document, or no part of the schema.
    """
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource = Resource.from_contents(schema, default_specification=DRAFT202012) if schema is not True else None
    for keyword in ("$ref", "$dynamicRef"):
        for reference in _values(schema, keyword):
            if not isinstance(reference, str) or resource is None:
                continue
            if not reference.startswith("#"):
                raise ValueError(f"{keyword}: {excerpt(reference)} refers to another document, which is not loaded")
            try:
                Registry().with_resource("", resource).resolver().lookup(reference)
            except (Unresolvable, ValueError):
                raise ValueError(f"{keyword}: {excerpt(reference)} does not exist in the schema") from None


def _values(schema: Any, keyword: str) -> Iterator[Any]:
    """Yield the values of a keyword anywhere in a schema; properties with the keyword's name are skipped."""
    if isinstance(schema, Mapping):
        for key, inner in schema.items():
            if key == keyword:
                yield inner
            if key in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
                for each in inner.values() if isinstance(inner, Mapping) else ():
                    yield from _values(each, keyword)
            elif key not in ("const", "enum", "default", "examples"):
                yield from _values(inner, keyword)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from _values(inner, keyword)


@lru_cache(maxsize=16)
def _validator_class(base: Any = None) -> Any:
    """Return a validator that limits the time of patterns, and divides numbers as decimals.

    `base` is the validator of the draft, None for the current draft.
    """
    # Imported here, because only suites with schemas need it.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    timed = {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "multipleOf": _check_multiple_of,
    }
    return extend(base or Draft202012Validator, timed)  # type: ignore[no-untyped-call]


def _search(pattern: str, text: str) -> bool:
    """Return whether a pattern of the schema matches anywhere in a string.

    Raises:
        TimeoutError: the search took too long.
        ValidationError: the pattern does not compile.
    """
    import regex
    from jsonschema.exceptions import ValidationError

    if _compiles(pattern):
        return regex.search(pattern, text, timeout=_PATTERN_S) is not None
    raise ValidationError(f"the schema's pattern does not compile: {pattern}")


@lru_cache(maxsize=256)
def _compiles(pattern: str) -> bool:
    return pattern_problem(pattern) is None


def _check_multiple_of(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Yield an error if a number is no multiple, as decimals: 19.99 is a multiple of 0.01."""
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "number") and (_exact(instance) / _exact(step)).denominator != 1:
        yield ValidationError(f"is not a multiple of {step}")


def _exact(number: float) -> Fraction:
    # Converting the number itself would give its binary value.
    return Fraction(repr(number))


def _check_pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    try:
        fits = not isinstance(instance, str) or _search(pattern, instance)
    except ValidationError as error:
        yield error
        return
    if not fits:
        yield ValidationError(f"does not match {pattern}")


def _check_pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    for pattern, inner in patterns.items() if isinstance(instance, dict) else ():
        try:
            matching = [key for key in instance if _search(pattern, key)]
        except ValidationError as error:
            yield error
            continue
        for key in matching:
            yield from validator.descend(instance[key], inner, path=key, schema_path=pattern)


def _check_additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if not isinstance(instance, dict) or allowed is True:
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    try:
        others = [
            key for key in instance if key not in named and not any(_search(pattern, key) for pattern in patterns)
        ]
    except ValidationError as error:
        yield error
        return
    if isinstance(allowed, Mapping):
        for key in others:
            yield from validator.descend(instance[key], allowed, path=key)
    elif others:
        yield ValidationError("additional properties")


def _describe_error(error: ValidationError, label: str) -> list[str]:
    """Return messages about a violation for a model. The messages omit the invalid value, which may be long."""
    where = field_path([*error.absolute_path]) or label
    wanted: Any = error.validator_value
    match error.validator:
        case "required":
            held = error.instance if isinstance(error.instance, dict) else {}
            return [f"{_member_path(error, name)} is missing" for name in wanted if name not in held]
        case "additionalProperties" if wanted is False and isinstance(error.instance, dict):
            schema: Any = error.schema
            known = list(schema.get("properties", {}))
            prefix = f"{field_path([*error.absolute_path])}: " if error.absolute_path else ""
            return [f"{prefix}{unknown_key_clause(key, known)}" for key in error.instance if key not in known]
        case "type":
            kinds = " or ".join([wanted] if isinstance(wanted, str) else wanted)
            return [f"{where} must be of type {kinds}, not {kind_of(error.instance)}"]
        case "enum":
            return [f"{where} must be one of {excerpt(', '.join(map(repr, wanted)))}"]
        case "pattern":
            return [f"{where} {excerpt(error.message)}"]
        case "format":
            return [f"{where} is not of the format {wanted}"]
        case "anyOf" | "oneOf":
            return [f"{where} does not fit any of the allowed forms"]
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf":
            return [f"{where} breaks {error.validator} {wanted}"]
        case _:
            return [f"{where} breaks {excerpt(str(error.validator), 40)} of the schema"]


def _member_path(error: ValidationError, name: str) -> str:
    return excerpt(field_path([*error.absolute_path, name]))
