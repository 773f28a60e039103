"""JSON schemas are written as pydantic-ai and the packages wrote them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holodeck_action.llm.codecs.anthropic_schemas import answer_schema, tool_schema
from holodeck_action.llm.codecs.schema_walk import SchemaError
from holodeck_action.llm.codecs.schemas import convert_schema
from tests.tables import walk

STYLES: tuple[tuple[Any, str, bool], ...] = (
    ("openai", "profiles.openai:_OpenAIJsonSchemaTransformer", True),
    ("openai_compatible", "profiles.openai:OpenAIJsonSchemaTransformer", True),
    ("inlined", "_json_schema:InlineDefsJsonSchemaTransformer", True),
    ("inlined_openai", "profiles.openai:_GptOssJsonSchemaTransformer", True),
    ("grok", "providers.azure:_AzureGrokJsonSchemaTransformer", False),
    ("grok", "profiles.openai:OpenAIJsonSchemaTransformer", True),
    ("gemma", "profiles.google:GoogleJsonSchemaTransformer", True),
)
CLAUDE = "providers.anthropic:AnthropicJsonSchemaTransformer"
NAMES = st.sampled_from(["a", "b", "name", "title"])
WORDS = st.fixed_dictionaries(
    {},
    optional={
        "title": st.just("T"),
        "description": st.sampled_from(["d", ""]),
        "default": st.just(1),
        "$schema": st.just("x"),
    },
)
TEXTS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "format": st.sampled_from(["date", "uri", "x"]),
        "pattern": st.sampled_from(["a+", "(?=b)", r"\(?=", r"\\(?!x)"]),
        "minLength": st.just(1),
        "enum": st.just(["a", "b"]),
        "const": st.just("c"),
    },
)
SINGLE = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number", "boolean", "null", ["string", "null"]])},
    optional={"minimum": st.just(0), "exclusiveMaximum": st.just(3)},
)
ODD = st.sampled_from(
    [
        *({"const": 1}, {"const": True}, {"const": 1.5}, {"enum": ["a"]}, {"enum": [1, "a"]}, {}, {"not": {}}),
        *({"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B", "description": "x"}, {"$ref": "#/properties/a"}),
        *({"type": "object"}, {"description": "only"}, True, False),
    ]
)


def _with_words(schema: Any, words: dict[str, Any]) -> Any:
    return {**words, **schema} if isinstance(schema, dict) else schema


def _inside(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, unique=True, max_size=3),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "patternProperties": st.dictionaries(st.just("^x"), inner, max_size=1),
            "propertyNames": TEXTS,
            "minProperties": st.just(1),
        },
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, max_size=2),
            "maxItems": st.sampled_from([1, 2]),
            "minItems": st.sampled_from([0, 1, 2]),
            "contains": inner,
            "uniqueItems": st.just(True),
        },
    )
    unions = st.builds(
        lambda union, members: {union: members},
        st.sampled_from(["anyOf", "oneOf", "allOf"]),
        st.lists(inner, min_size=1, max_size=3),
    )
    return st.builds(_with_words, st.one_of(objects, arrays, unions), WORDS)


ANY = st.recursive(st.builds(_with_words, st.one_of(TEXTS, SINGLE, ODD), WORDS), _inside, max_leaves=6)
WHOLE = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(NAMES, ANY, max_size=4)},
    optional={
        "required": st.lists(NAMES, unique=True),
        "additionalProperties": st.just(False),
        "title": st.just("R"),
        "definitions": st.dictionaries(st.just("Q"), ANY, max_size=1),
        "$defs": st.fixed_dictionaries({"A": ANY, "B": ANY}),
    },
)
COMMON = settings(max_examples=150, deadline=None, suppress_health_check=[*HealthCheck], database=None)


def theirs(transformer: str, schema: Any, strict: bool | None) -> Any:
    """Return what a transformer makes of a schema, None where it refuses it."""
    kind = resolve_name(f"pydantic_ai.{transformer}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            walk = kind(schema, strict=strict)
            result = walk.walk()
        except Exception:
            return None
    return result, walk.is_strict_compatible if strict is None else strict


def ours(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except SchemaError:
        return None


@pytest.mark.full
@COMMON
@given(schema=WHOLE, strict=st.sampled_from([None, True, False]))
def test_any_schema(schema: Any, strict: bool | None) -> None:
    before = copy.deepcopy(schema)
    for style, transformer, of_answer in STYLES:
        made = ours(partial(convert_schema, schema, style, strict, is_answer_schema=of_answer))
        assert schema == before, style
        assert made == theirs(transformer, schema, strict), style


@pytest.mark.full
@COMMON
@given(schema=WHOLE)
def test_any_schema_for_claude(schema: Any) -> None:
    from pydantic_ai.models._anthropic_schema_limits import exceeded_limit

    assert ours(lambda: (tool_schema(schema), False)) == theirs(CLAUDE, schema, None)
    expected = theirs(CLAUDE, schema, True)
    if expected is not None and exceeded_limit([], expected[0]) is not None:
        expected = None
    assert ours(lambda: (answer_schema(schema), True)) == expected


TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"value": {"type": "string"}, "below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "required": ["value", "below"],
}


@walk("root", [{"$ref": "#/$defs/Tree"}, {"type": "object", "properties": {"t": {"$ref": "#/$defs/Tree"}}}])
@walk(("style", "transformer", "of_answer"), STYLES)
def test_what_contains_itself(style: Any, transformer: str, of_answer: bool, root: dict[str, Any]) -> None:
    schema = {**root, "$defs": {"Tree": TREE}}
    assert convert_schema(schema, style, None, is_answer_schema=of_answer) == theirs(transformer, schema, None)
    assert ours(lambda: answer_schema(schema)) is None


@pytest.mark.full
def test_a_schema_that_grows_without_end_is_refused() -> None:
    level: dict[str, Any] = {"type": "string"}
    definitions: dict[str, Any] = {"D0": level}
    for number in range(1, 20):
        same = {"$ref": f"#/$defs/D{number - 1}"}
        definitions[f"D{number}"] = {"type": "object", "properties": {"a": same, "b": same, "c": same}}
    schema = {"type": "object", "properties": {"all": {"$ref": "#/$defs/D19"}}, "$defs": definitions}
    with pytest.raises(SchemaError, match="more than 250,000 values"):
        convert_schema(schema, "inlined", None, is_answer_schema=False)


@pytest.mark.parametrize(("deep", "wide", "strict"), [(10, 1, True), (11, 1, False), (1, 5000, True), (1, 5001, False)])
def test_what_is_too_large_for_strict_mode_is_not_strict(deep: int, wide: int, strict: bool) -> None:
    names = [f"p{number}" for number in range(wide)]
    schema: dict[str, Any] = {"type": "object", "properties": {n: {"type": "null"} for n in names}, "required": names}
    for _ in range(deep - 1):
        schema = {"type": "object", "properties": {"p": schema}, "required": ["p"]}
    assert convert_schema(schema, "openai", None, is_answer_schema=False)[1] is strict
