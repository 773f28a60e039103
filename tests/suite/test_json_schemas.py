"""JSON schemas whose patterns look at what a model wrote."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holodeck_action.suite.json_schemas import JsonSchema

SLOW = "^(a|aa)+$"
LONG = "a" * 60 + "b"


@pytest.mark.full
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": SLOW}, LONG),
        ({"propertyNames": {"pattern": SLOW}}, {LONG: 1}),
        ({"patternProperties": {SLOW: {"type": "string"}}}, {LONG: 1}),
        ({"patternProperties": {SLOW: True}, "additionalProperties": False}, {LONG: 1}),
        ({"patternProperties": {SLOW: True}, "additionalProperties": {"type": "string"}}, {LONG: 1}),
    ],
)
def test_no_pattern_holds_up_the_run(schema: dict[str, Any], value: Any) -> None:
    """A search without a limit would take years."""
    (violation,) = JsonSchema(schema).violations(value, label="the answer", max_violations=5)
    assert violation.problem == "a text is too long or too repetitive for the schema's pattern"


def test_patterns_that_the_library_would_search_without_a_limit_are_refused() -> None:
    schema = {"anyOf": [{"patternProperties": {SLOW: True}}], "unevaluatedProperties": False}
    with pytest.raises(ValueError, match="unevaluatedProperties cannot be used with patternProperties"):
        JsonSchema(schema)


KEYS = st.sampled_from(["a", "b", "xa", "xb", "c1"])
LEAF = st.sampled_from([{"type": "string"}, {"type": "integer"}, True, False])
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.dictionaries(KEYS, LEAF, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^x", "1$", "a"]), LEAF, max_size=2),
        "additionalProperties": LEAF,
    },
)
VALUES = st.one_of(st.dictionaries(KEYS, st.sampled_from(["s", 1, None]), max_size=4), st.just("text"))


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, VALUES)
def test_what_fits_is_what_fits_for_the_library(schema: dict[str, Any], value: Any) -> None:
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (JsonSchema(schema).violations(value, label="it", max_violations=9) == []) == fits
