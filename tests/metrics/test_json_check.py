"""`type: json` in suites, on hostile answers, and against jsonschema and a walk by hand."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.metrics import Json
from holodeck_action.metrics.json_check import JsonValue
from holodeck_action.suite.json_schemas import JsonSchema
from tests.commands.project import Project, evaluations
from tests.tables import walk

ORDER = {
    "type": "object",
    "required": ["order"],
    "properties": {
        "order": {
            "type": "object",
            "required": ["total", "status"],
            "properties": {
                "total": {"type": "number", "minimum": 0},
                "status": {"enum": ["open", "shipped"]},
                "id": {"type": "string", "pattern": "^A-[0-9]+$"},
                "at": {"type": "string", "format": "date-time"},
                "currency": {"const": "EUR"},
            },
        }
    },
}


def outcome(project: Project, check: dict[str, Any], answer: str) -> tuple[int, str]:
    """Run a case with a check; return the exit code, and why the check says so."""
    project.write("order.schema.json", json.dumps(ORDER))
    project.suite([{"name": "a", "input": "q", "expect": [check]}], evaluations=None)
    project.answers([{"case": "a", "response": answer}])
    ended, record = project.evaluate("--target", "recorded:answers.jsonl")
    [found] = evaluations(record)
    return ended.code, found.explanation or (found.error.message if found.error is not None else "")


def of(**order: Any) -> str:
    return json.dumps({"order": {"total": 12.5, "status": "shipped", **order}})


@pytest.mark.parametrize(
    ("check", "answer", "reason"),
    [
        ({"json": None}, "[1, 2]", None),
        ({"json": None}, "{'a': 1}", "the answer is not JSON: Expecting property name enclosed in double quotes at"),
        ({"json": None}, '{"a": 1, "a": 2}', "the answer is not JSON: an object holds the key 'a' twice"),
        ({"json": None}, '{"a": NaN}', "the answer is not JSON: NaN is not a JSON value"),
        ({"json": None}, "", "the answer is empty"),
        ({"json": None}, "[" * 300 + "]" * 300, "the answer is not JSON: it is nested too deeply"),
        ({"json": None}, "Here:\n```json\n{}\n```\n", "; fenced: true reads the fenced block; it is "),
        ({"json": None, "fenced": True}, "Here:\n```json\n{}\n```\nBye", None),
        ({"json": None, "fenced": True}, "{}", None),
        ({"json": None, "fenced": True}, "```\n{}\n```\n```\n{}\n```", "the answer has several fenced code blocks"),
        ({"json": "order.schema.json"}, of(), None),
        ({"json": "order.schema.json"}, "[]", "the answer must be of type object, not a list"),
        ({"json": "order.schema.json"}, of(total="x"), 'order.total must be of type number, not text, got "x"'),
        ({"json": "order.schema.json"}, of(total=-1), "order.total breaks minimum 0, got -1"),
        (
            {"json": "order.schema.json"},
            of(status="gone"),
            "order.status must be one of 'open', 'shipped', got \"gone\"",
        ),
        ({"json": "order.schema.json"}, of(id="B-1"), 'order.id does not match ^A-[0-9]+$, got "B-1"'),
        ({"json": "order.schema.json"}, of(at="2026-11-25T22:20:28Z"), None),
        ({"json": "order.schema.json"}, of(at="today"), 'order.at is not of the format date-time, got "today"'),
        ({"json": "order.schema.json"}, of(currency="USD"), 'of the schema, expected "EUR", got "USD"'),
        ({"json": "order.schema.json"}, '{"order": {}}', "order.total is missing; order.status is missing"),
        ({"json": {"type": "array"}}, "[]", None),
        ({"json": {"type": "array"}}, "{}", "the answer must be of type array, not an object"),
        ({"json": None, "paths": {"$.order.total": 12.5}}, of(), None),
        ({"json": None, "paths": {"$.order.total": 12}}, of(), "$.order.total is 12.5, expected 12"),
        ({"json": None, "paths": {"$.order.total": {"min": 12, "max": 13}}}, of(), None),
        ({"json": None, "paths": {"$.order.total": {"min": 13}}}, of(), "$.order.total is 12.5, expected at least 13"),
        ({"json": None, "paths": {"$.order.total": {"max": 12}}}, of(), "$.order.total is 12.5, expected at most 12"),
        (
            {"json": None, "paths": {"$.order.status": {"min": 1}}},
            of(),
            '$.order.status is "shipped", expected at leas',
        ),
        ({"json": None, "paths": {"$.order.id": {"regex": "^A-"}}}, of(id="A-1"), None),
        (
            {"json": None, "paths": {"$.order.id": {"regex": "^A-"}}},
            of(id="B-1"),
            '$.order.id is "B-1", expected a text that matches /^A-/',
        ),
        ({"json": None, "paths": {"$.order.id": {"exists": True}}}, of(), "$.order.id is missing"),
        ({"json": None, "paths": {"$.order.id": {"exists": False}}}, of(), None),
        (
            {"json": None, "paths": {"$.order.id": {"exists": False}}},
            of(id=None),
            "$.order.id is null, expected nothing there",
        ),
        ({"json": None, "paths": {"$.order": {"equals": {"total": 1, "status": "open"}}}}, of(), "expected {"),
        ({"json": None, "paths": {"$": 1}}, '"1"', '$ is "1", expected 1'),
        ({"json": None, "paths": {"$.a": 1}}, '"{\\"a\\": 1}"', "$.a is missing"),
        ({"json": None, "paths": {"$[*].n": {"max": 2}}}, '[{"n": 1}, {"n": 3}]', "$[*].n is 3, expected at most 2"),
    ],
)
@pytest.mark.proves("JsonMetric: type json_schema paths fenced", "JsonValue: equals regex min max exists")
def test_answers(project: Project, check: dict[str, Any], answer: str, reason: str | None) -> None:
    code, why = outcome(project, check, answer)
    assert code == (0 if reason is None else 1), why
    assert reason is None or reason in why


@walk(
    ("schema", "value", "fits"),
    [
        ({"format": name}, value, fits)
        for name, good, bad in [
            ("date-time", "2026-02-28T00:00:00.25+01:00", "2026-02-30T00:00:00Z"),
            ("date-time", "2026-02-28t10:00:00z", "2026-02-28 10:00:00Z"),
            ("date", "2024-02-29", "2023-02-29"),
            ("date", "2024-12-01", "20241201"),
            ("time", "23:59:59Z", "24:00:00Z"),
            ("email", "a.b@example.org", "a@b@c"),
            ("hostname", "a-1.example", "-a.example"),
            ("ipv4", "127.0.0.1", "127.0.0.256"),
            ("ipv6", "::1", "::1%eth0"),
            ("uri", "https://example.org/%20?q#f", "/path"),
            ("uri", "urn:isbn:1", "https://exa mple.org"),
            ("uuid", "9F1E5a52-9d2c-4b6e-8a61-000000000000", "9f1e5a529d2c4b6e8a61000000000000"),
        ]
        for value, fits in ((good, True), (bad, False), (7, True))
    ],
)
def test_formats(schema: dict[str, Any], value: Any, fits: bool) -> None:
    assert (JsonSchema(schema, is_user_supplied=True).violations(value, label="it", max_violations=1) == []) == fits


@pytest.mark.parametrize(
    ("files", "check", "problem"),
    [
        ({}, {"json": "gone.json"}, "the file gone.json cannot be read: No such file or directory"),
        ({}, {"json": "../gone.json"}, "the file"),
        ({"s.json": "{"}, {"json": "s.json"}, "the file s.json "),
        ({"s.json": "[]"}, {"json": "s.json"}, "the file s.json must hold a JSON Schema, which is an object"),
        (
            {"s.json": '{"type": "x"}'},
            {"json": "s.json"},
            "the file s.json is not a JSON Schema: type: 'x' is not valid",
        ),
        ({}, {"json": {"type": "x"}}, "is not a JSON Schema: type: 'x' is not valid"),
        ({}, {"json": {"$ref": "https://example.org/s.json"}}, "refers to another document, which is not loaded"),
        ({}, {"json": {"$ref": "#/$defs/gone"}}, "$ref: #/$defs/gone does not exist in the schema"),
        ({}, {"json": {"$schema": "https://example.org/draft"}}, "is not a draft of JSON Schema"),
        ({}, {"json": {"format": "zip-code"}}, "the format zip-code is not checked (allowed: date-time, date, "),
        ({}, {"json": None, "paths": {"order": 1}}, "'order' is not a JSONPath"),
        ({}, {"json": None, "paths": {"$[?@.a > 1]": 1}}, "'$[?@.a > 1]' has a filter, which is not allowed here"),
        ({}, {"json": None, "paths": {"$.a": {"min": 2, "max": 1}}}, "min must not be above max"),
        ({}, {"json": None, "paths": {"$.a": {"exists": False, "min": 1}}}, "exists: false cannot be combined with"),
        ({}, {"json": None, "paths": {"$.a": {"regex": "("}}}, "the pattern does not compile"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    project: Project, files: dict[str, str], check: dict[str, Any], problem: str
) -> None:
    for name, content in files.items():
        project.write(name, content)
    project.suite([{"name": "a", "input": "q", "expect": [check]}], evaluations=None)
    ended = project.run("validate")
    assert ended.code == 2
    assert "agent.yaml:" in ended.stderr
    assert problem in ended.stderr


def test_the_draft_is_that_of_the_schema(project: Project) -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {"type": "integer"}}}
    schema = {**old, "items": [{"$ref": "#/definitions/n"}, {"type": "string"}]}
    assert outcome(project, {"json": schema}, '[1, "a"]')[0] == 0
    # In the current draft `items` is one schema for all.
    assert outcome(project, {"json": schema}, '["a", "a"]')[0] == 1


def test_a_schema_stands_beside_the_file_that_names_it(project: Project) -> None:
    project.write("cases/order.schema.json", json.dumps(ORDER))
    project.write(
        "cases/cases.yaml", json.dumps([{"name": "a", "input": "q", "expect": {"json": "order.schema.json"}}])
    )
    project.suite([], test_cases=None, test_cases_file="cases/cases.yaml", evaluations=None)
    project.answers([{"case": "a", "response": of()}])
    ended, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert ended.code == 0, ended.stderr
    [found] = evaluations(record)
    assert found.evaluator_name == "json cases/order.schema.json"
    assert len(found.criteria.settings["schema_sha256"]) == 64


def test_a_changed_schema_is_another_measure(project: Project) -> None:
    for most, out in ((20, "base"), (30, "head")):
        project.write("s.json", json.dumps({"type": "number", "maximum": most}))
        project.suite([{"name": "a", "input": "q", "expect": {"json": "s.json"}}], evaluations=None)
        project.answers([{"case": "a", "response": "12"}])
        assert project.run("run", "--target", "recorded:answers.jsonl", "-o", out).code == 0
    ended = project.run("compare", "base/results.json", "head/results.json", "--format", "json")
    [metric] = json.loads(ended.stdout)["comparison"]["metrics"]
    assert metric["incomparable"] == "it has other settings: schema_sha256"


def test_a_member_of_a_composite_has_its_schema(project: Project) -> None:
    project.write("order.schema.json", json.dumps(ORDER))
    members = [{"type": "json", "json_schema": "order.schema.json"}]
    project.suite([{"name": "a", "input": "q"}], [{"type": "composite", "metrics": members}])
    project.answers([{"case": "a", "response": of()}])
    assert project.run("run", "--target", "recorded:answers.jsonl").code == 0
    project.answers([{"case": "a", "response": "{}"}])
    assert project.run("run", "--target", "recorded:answers.jsonl").code == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "1", "A-1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)
SCHEMAS = st.recursive(
    st.sampled_from([True, False, {"type": "integer"}, {"const": 1}, {"enum": ["a", None]}, {"minimum": 0}]),
    lambda inner: st.one_of(
        st.builds(lambda items: {"items": items, "maxItems": 2}, inner),
        st.builds(lambda one: {"properties": {"a": one}, "required": ["b"]}, inner),
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
        st.builds(lambda one: {"not": one}, inner),
    ),
    max_leaves=4,
)


@given(SCHEMAS, JSON)
def test_schemas_against_the_library(schema: Any, value: Any) -> None:
    if isinstance(schema, bool):
        schema = {"allOf": [schema]}
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (Json(json_schema=schema).compute(response=json.dumps(value)).score == 1.0) == fits


@given(JSON, st.lists(st.sampled_from(["a", "b", 0, 1, "*"]), max_size=3), JSON)
def test_paths_against_a_walk_by_hand(value: Any, steps: list[Any], wanted: Any) -> None:
    found = [value]
    for step in steps:
        inner: list[Any] = []
        for one in found:
            if step == "*":
                inner += one.values() if isinstance(one, dict) else one if isinstance(one, list) else []
            elif isinstance(one, dict if isinstance(step, str) else list):
                inner += [one[step]] if step in (one if isinstance(one, dict) else range(len(one))) else []
        found = inner
    path = "$" + "".join(f"[{step}]" if step == "*" or isinstance(step, int) else f"['{step}']" for step in steps)
    # Python takes True for 1, JSON does not.
    expected = bool(found) and all(
        json.dumps(one, sort_keys=True) == json.dumps(wanted, sort_keys=True) for one in found
    )
    metric = Json(paths={path: JsonValue(equals=wanted)})
    assert (metric.compute(response=json.dumps(value)).score == 1.0) == expected


@pytest.mark.parametrize(
    ("step", "answer", "fits"),
    [
        (0.01, "19.99", True),
        (0.1, "0.3", True),
        (0.1, "0.35", False),
        (0.01, "19.995", False),
        (1e-7, "0.3", True),
        (3, "9", True),
        (3, "10", False),
        (0.5, "1e300", True),
        (7, str(7 * 10**40), True),
        (7, str(7 * 10**40 + 1), False),
        (0.1, '"text"', True),
        (1, "true", True),
    ],
)
def test_multiples_are_those_of_decimals(step: float, answer: str, fits: bool) -> None:
    found = JsonSchema({"multipleOf": step}, is_user_supplied=True)
    assert (found.violations(json.loads(answer), label="it", max_violations=1) == []) == fits


def test_a_price_in_cents(project: Project) -> None:
    schema = {"properties": {"price": {"multipleOf": 0.01}}}
    assert outcome(project, {"json": schema}, '{"price": 19.99}')[0] == 0
    assert outcome(project, {"json": schema}, '{"price": 19.999}')[0] == 1
