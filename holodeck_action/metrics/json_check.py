"""`type: json`: the answer is JSON, fits a schema, and has certain values at JSONPaths."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, PrivateAttr, model_validator
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_before_validator_function

from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.result import excerpt
from holodeck_action.metrics.text_checks import EMPTY, AnswerCheck, check_pattern
from holodeck_action.metrics.tools.matchers import (
    TimedPatterns,
    as_float,
    format_pattern,
    format_text,
    format_value,
    is_number,
    literal_equal,
)
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.identity import canonical_json
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.model.base import Flag, FormatModel, NonBlank, Number
from holodeck_action.suite.model.expected_tools import check_json
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.json_values import DuplicateKeyError, parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from jsonpath import JSONPath

MOST_CHARACTERS = 4_000_000
"""Maximum characters of an answer; longer answers are not parsed."""
_MOST_MATCHES = 10_000
_MOST_PROBLEMS = 5
_CONDITIONS = ("equals", "regex", "min", "max", "exists")
_FENCE = lazy_pattern(r"^ {0,3}(`{3,}|~{3,})[^\n`]*\n(.*?)^ {0,3}\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
"""Matches a fenced code block (CommonMark 0.31, section 4.5) that is closed."""


class JsonValue(FormatModel):
    """Conditions on the values at a JSONPath. Every value that the path finds must meet all given conditions."""

    equals: Any = None
    """The value, any JSON. Example: `shipped`."""
    regex: NonBlank | None = None
    """A regular expression that is searched for in a text. Example: `^A-[0-9]+$`."""
    min: Number | None = None
    """The smallest number, inclusive. Example: `0`."""
    max: Number | None = None
    """The largest number, inclusive. Example: `100`."""
    exists: Flag = True
    """False: the path must find nothing."""

    @model_validator(mode="after")
    def _check_conditions(self) -> JsonValue:
        if self.regex is not None:
            check_pattern(self.regex)
        check_json(self.equals)
        if self.min is not None and self.max is not None and self.min > self.max:
            raise PydanticCustomError("json_bounds", "min must not be above max")
        if not self.exists and len(self.model_fields_set.intersection(_CONDITIONS)) > 1:
            raise PydanticCustomError("json_exists", "exists: false cannot be combined with other conditions")
        return self

    def problem(self, value: Any, patterns: TimedPatterns) -> str | None:
        """Return the first condition that a value does not meet, as the end of a sentence; None if it meets all
        conditions.

        Raises:
            PatternError: the pattern takes too long (code `pattern_timeout`).
        """
        if "equals" in self.model_fields_set and not literal_equal(self.equals, value):
            return f"expected {format_value(self.equals)}"
        if self.regex is not None and (not isinstance(value, str) or patterns.search(self.regex, value) is None):
            return f"expected a text that matches {format_pattern(self.regex)}"
        for bound, word, beyond in ((self.min, "at least", -1), (self.max, "at most", 1)):
            if bound is not None and (not is_number(value) or not (as_float(value) - bound) * beyond <= 0):
                return f"expected {word} {bound:g}"
        return None


def _as_condition(value: Any) -> Any:
    """Return `{"equals": value}` for a plain value; return a condition unchanged."""
    if isinstance(value, JsonValue) or (isinstance(value, Mapping) and any(name in value for name in _CONDITIONS)):
        return value
    return {"equals": value}


class _PlainMeansEquals:
    """Annotation of a field with a condition: a plain JSON value is also accepted and means `equals`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(_as_condition, schema=handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": ["string", "number", "boolean", "array", "null"]}]}


class JsonMetric(AnswerCheck):
    """`type: json`: the answer is JSON (RFC 8259), and meets a schema and conditions on its values."""

    PLACE = 28
    SHORT: ClassVar[str | None] = "json_schema"
    NAMES_FILE = True

    type: Annotated[Literal["json"], Role.KIND] = "json"
    json_schema: NonBlank | dict[str, Any] | None = None
    """A JSON Schema (draft 2020-12, or the draft that its `$schema` names): a file, relative to the file that names it,
    or the schema itself. References to other documents are refused. Example: `order.schema.json`."""
    paths: dict[str, Annotated[JsonValue, _PlainMeansEquals()]] = Field(default_factory=dict)
    """Conditions by JSONPath (RFC 9535, without filters): `equals`, `regex`, `min`, `max`, `exists`. A plain value
    means `equals`. Example: `{$.order.total: {min: 1}, $.order.status: shipped}`."""
    fenced: Flag = False
    """The JSON may be in a fenced code block, if the answer has only one."""

    _schema: JsonSchema | None = PrivateAttr(None)
    _digest: str | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        for path in self.paths:
            _compile_path(path)
        if isinstance(self.json_schema, dict):
            self._set_schema(check_json(self.json_schema))
        return self

    def _set_schema(self, schema: Any) -> None:
        if not isinstance(schema, dict):
            raise PydanticCustomError("json_schema", "must hold a JSON Schema, which is an object")
        try:
            self._schema, self._digest = (
                JsonSchema(schema, is_user_supplied=True),
                sha256(canonical_json(schema)).hexdigest(),
            )
        except ValueError as error:
            raise PydanticCustomError("json_schema", "is not a JSON Schema: {reason}", {"reason": str(error)}) from None

    def with_file(self, place: Callable[[str], str], checkout: Checkout) -> Self:
        """Return a copy of the metric with the schema loaded from the file that it names; see `Metric.with_file`."""
        if not isinstance(self.json_schema, str):
            return self
        path = place(self.json_schema)
        made = self.model_copy(update={"json_schema": path})
        try:
            schema = checkout.read(path).json()
        except ForeignError as error:
            raise ValueError(f"the file {path} {error}") from None
        try:
            made._set_schema(schema)
        except PydanticCustomError as error:
            raise ValueError(f"the file {path} {error.message()}") from None
        return made

    def base_name(self, k: int | None) -> str:
        """Return the type, followed by the name of the schema's file or by the paths."""
        shown = self.json_schema if isinstance(self.json_schema, str) else ", ".join(self.paths)
        return f"{self.type} {format_text(shown, 40)}" if shown else self.type

    @property
    def grades_content(self) -> bool:
        """Whether a schema or a path says what the JSON must hold."""
        return self.json_schema is not None or bool(self.paths)

    def criteria_settings(self) -> dict[str, Any]:
        """Return the settings, including the hash of the schema."""
        found = super().criteria_settings()
        return found if self._digest is None else {**found, "schema_sha256": self._digest}

    def check(self, response: str) -> tuple[float, str, dict[str, Any]]:
        """Return the score, a sentence with the reason, and details for the record. The score is 1.0 if the answer is
        JSON that meets the schema and all conditions, else 0.0.

        Raises:
            EvaluationError: the answer is too long (code `too_large`), its schema was not read (code `no_schema`), or a
                pattern takes too long (code `pattern_timeout`).
        """
        if isinstance(self.json_schema, str) and self._schema is None:
            raise EvaluationError(f"the schema {self.json_schema} was not read", code="no_schema")
        if len(response) > MOST_CHARACTERS:
            raise EvaluationError(f"the answer has more than {MOST_CHARACTERS:,} characters", code="too_large")
        text = self._json_text(response)
        if text is None:
            return 0.0, "the answer has several fenced code blocks, and it is unknown which one counts", {}
        if not text.strip():
            return 0.0, EMPTY, {}
        try:
            value = parse_json(text, unique_keys=True)
        except DuplicateKeyError as error:
            return 0.0, f"the answer is not JSON: an object holds the key {excerpt(str(error), 80)} twice", {}
        except ValueError as error:
            hint = "" if self.fenced or _FENCE.search(response) is None else "; fenced: true reads the fenced block"
            return 0.0, f"the answer is not JSON: {error}{hint}; it is {excerpt(response)}", {}
        problems = [*self._schema_problems(value), *self._condition_problems(value)]
        if problems:
            return 0.0, "; ".join(problems[:_MOST_PROBLEMS]), {"problems": problems[:_MOST_PROBLEMS]}
        return 1.0, "the answer is JSON" + (", as wanted" if self._schema is not None or self.paths else ""), {}

    def _json_text(self, response: str) -> str | None:
        """Return the part of the answer that must be JSON; None if the answer has several code blocks."""
        blocks = [found[2] for found in islice(_FENCE.finditer(response), 2)] if self.fenced else []
        return None if len(blocks) > 1 else blocks[0] if blocks else response

    def _schema_problems(self, value: Any) -> list[str]:
        if self._schema is None:
            return []
        found = []
        for violation in self._schema.violations(value, label="the answer", max_violations=_MOST_PROBLEMS):
            if violation.schema_path in ("pattern", "", "$ref"):
                raise EvaluationError(f"the schema cannot be applied: {violation.problem}", code="schema_failed")
            wanted = f", expected {format_value(violation.wanted)}" if violation.schema_path.endswith("const") else ""
            got = "" if isinstance(violation.value, dict | list) else f", got {format_value(violation.value)}"
            found.append(f"{violation.problem}{wanted}{got}")
        return found

    def _condition_problems(self, value: Any) -> list[str]:
        found, patterns = [], TimedPatterns()
        for path, condition in self.paths.items():
            values = _find_values(_compile_path(path), value)
            shown = format_text(path)
            if not condition.exists:
                found += [f"{shown} is {format_value(values[0])}, expected nothing there"] if values else []
            elif not values:
                found.append(f"{shown} is missing")
            else:
                unmet = ((one, problem) for one in values if (problem := condition.problem(one, patterns)) is not None)
                found += [f"{shown} is {format_value(one)}, {problem}" for one, problem in islice(unmet, 1)]
        return found


def _find_values(path: JSONPath, value: Any) -> list[Any]:
    """Return the values at a JSONPath, at most `_MOST_MATCHES`."""
    if isinstance(value, str):
        # The library would parse a string as JSON.
        return [] if path.segments else [value]
    return [match.obj for match in islice(path.finditer(value), _MOST_MATCHES)]


@lru_cache(maxsize=256)
def _compile_path(path: str) -> JSONPath:
    """Compile a JSONPath.

    Raises:
        PydanticCustomError: the path is invalid, or contains a construct that is not allowed here.
    """
    # Only suites with paths pay for the import.
    from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError
    from jsonpath.segments import JSONPathChildSegment
    from jsonpath.selectors import IndexSelector, NameSelector, SliceSelector, WildcardSelector

    try:
        found = JSONPathEnvironment(strict=True).compile(path)
    except (JSONPathError, RecursionError) as error:
        reason = str(error).partition("\n")[0] or "it is nested too deeply"
        raise PydanticCustomError(
            "json_path", "{path} is not a JSONPath: {reason}", {"path": excerpt(path, 80), "reason": reason}
        ) from None
    plain = (IndexSelector, NameSelector, SliceSelector, WildcardSelector)
    if not isinstance(found, JSONPath) or not all(
        isinstance(selector, plain)
        for segment in found.segments
        if isinstance(segment, JSONPathChildSegment)
        for selector in segment.selectors
    ):
        raise PydanticCustomError(
            "json_path", "{path} has a filter, which is not allowed here: use json_schema", {"path": excerpt(path, 80)}
        )
    return found
