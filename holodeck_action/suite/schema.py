"""JSON Schemas (draft 2020-12) of agent.yaml and the policy file, for editors, made from the models.

They accept what the loader accepts, shorthands and `${VAR}` included, and refuse what can be refused by looking at one
mapping at a time. Comparisons between two values, names that must exist elsewhere in the suite, texts with a grammar
of their own (patterns, templates, JSONPath) and quoted numbers out of range are left to the loader.
"""

from __future__ import annotations

import ast
import copy
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import yaml
from pydantic import BaseModel

from holodeck_action.suite.agent import AgentConfig
from holodeck_action.suite.base import FLAG_TEXT, INTEGER_TEXT, NUMBER_TEXT, FormatModel
from holodeck_action.suite.metrics import METRIC_TYPES, TOLD_BY
from holodeck_action.suite.policy import BOUNDS_OF_METRICS, Policy


def describe_fields(schema: dict[str, Any], root: type[BaseModel]) -> None:
    """Write the docstring below each field into the schema of a model and of those it is made of.

    "Example: `VALUE`." at the end of a docstring is YAML, and becomes an example of the schema.

    Args:
        schema: what `model_json_schema` returned; changed.
        root: the model it was made from.
    """
    known = {model.__name__: model for model in _models(BaseModel)}
    definitions = {name: known[name] for name in schema.get("$defs", ()) if name in known}
    for model, part in [(root, schema), *((model, schema["$defs"][name]) for name, model in definitions.items())]:
        properties = part.get("properties", {})
        for owner in model.__mro__:
            if issubclass(owner, BaseModel) and owner is not BaseModel:
                for name, text in _of_module(owner.__module__).get(owner.__qualname__, {}).items():
                    if name in properties:
                        described, _, example = text.partition(" Example: `")
                        properties[name].setdefault("description", described)
                        if example:
                            properties[name].setdefault("examples", [yaml.safe_load(example.removesuffix("`."))])


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        if model.__module__.startswith(f"{__package__}."):
            yield model
        yield from _models(model)


@cache
def _of_module(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings of fields by class and field."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: dict(_below(node.body)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _below(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
            yield field.target.id, " ".join(text.value.value.split())


Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE = r"\$\{[A-Za-z_]"
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_TEXT_FORMS: dict[str, Schema] = {
    "variable": {"type": "string", "pattern": _VARIABLE, "description": "The value of an environment variable."},
    "number_text": {"type": "string", "pattern": rf"^({NUMBER_TEXT})$|{_VARIABLE}", "description": "A quoted number."},
    "integer_text": {
        "type": "string",
        "pattern": rf"^({INTEGER_TEXT})$|{_VARIABLE}",
        "description": "A quoted whole number.",
    },
    "flag_text": {
        "anyOf": [{"type": "string", "pattern": rf"^({FLAG_TEXT})$|{_VARIABLE}"}, {"enum": [0, 1]}],
        "description": "A quoted or numeric truth value.",
    },
}
_FORM_OF = {"number": "number_text", "integer": "integer_text", "boolean": "flag_text"}
_MAPS_OF_SCHEMAS = ("properties", "$defs")
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf")
_SCHEMAS = ("items", "additionalProperties", "propertyNames")


def _given(*names: str) -> Schema:
    return {"required": list(names), "properties": {name: {"not": {"enum": [None, ""]}} for name in names}}


def _absent(*names: str) -> Schema:
    return {"properties": {name: {"type": "null"} for name in names}}


def _is(name: str, *values: Any) -> Schema:
    return {"type": "object", "required": [name], "properties": {name: {"enum": list(values)}}}


def _one_of(first: str, second: str) -> Schema:
    return {"oneOf": [{**_given(first), "not": _given(second)}, {**_given(second), "not": _given(first)}]}


def _any_of(*names: str) -> Schema:
    return {"anyOf": [_given(name) for name in names]}


def _pattern(name: str, pattern: str) -> Schema:
    return {"properties": {name: {"pattern": f"{pattern}|{_VARIABLE}"}}}


_SEARCHES = {"contains": _is("type", "vectorstore", "hierarchical_document")}
_AZURE: Schema = {"if": _is("provider", "azure_openai"), "then": _given("endpoint")}
_ANSWER_IS_SHOWN: Schema = {"contains": {"anyOf": [{"const": "actual_output"}, {"pattern": _VARIABLE}]}}
_LENGTHS = [f"{side}_{unit}" for unit in ("words", "characters", "sentences") for side in ("min", "max")]
_SERVER_URL = r"^(https|wss|ws):|^http://(localhost|127\.0\.0\.1|\[::1\])([:/?#]|$)"

# What the validators of the models demand, by model.
_RULES: dict[str, tuple[Schema, ...]] = {
    "Instructions": (_one_of("file", "inline"),),
    "FileInput": (_one_of("path", "url"),),
    "PromptTool": (_one_of("template", "file"),),
    "Subagent": (_one_of("prompt", "prompt_file"),),
    "LLMProvider": (_AZURE,),
    "CaseEntry": (
        {
            "if": _given("turns"),
            "then": _absent("input", "ground_truth", "expected_tools", "files", "retrieval_context"),
            "else": _given("input"),
        },
    ),
    "StandardMetric": ({"if": _given("scale"), "else": {"properties": {"threshold": {"maximum": 1}}}},),
    "GEvalMetric": ({"properties": {"evaluation_params": _ANSWER_IS_SHOWN}},),
    "CriterionPart": (
        {"if": _given("evaluation_params"), "then": {"properties": {"evaluation_params": _ANSWER_IS_SHOWN}}},
    ),
    "LengthMetric": (_any_of(*_LENGTHS),),
    "VectorstoreTool": ({"if": _given("vector_field"), "then": _given("id_field")},),
    "KeywordIndex": ({"if": _is("provider", "opensearch"), "then": _given("endpoint", "index_name")},),
    "HierarchicalDocumentTool": (
        {"if": _is("enable_reranking", True, 1, "true", "yes", "on"), "then": _given("reranker_model")},
    ),
    "MCPTool": (
        {
            "if": _is("transport", "sse", "websocket", "http"),
            "then": {"allOf": [_given("url"), _pattern("url", _SERVER_URL)]},
            "else": _given("command"),
        },
    ),
    "AgentConfig": (
        {"not": _given("test_cases", "test_cases_file")},
        {"properties": {"embedding_provider": {"not": _is("provider", "anthropic")}}},
        {
            "if": {"properties": {"model": _is("provider", "anthropic"), "tools": _SEARCHES}, "required": ["tools"]},
            "then": _given("embedding_provider"),
        },
    ),
    "GateMetric": (_any_of(*(key for pair in BOUNDS_OF_METRICS for key in pair)),),
    "GateSummary": ({"if": _is("method", "weighted_average"), "then": _given("weights"), "else": _absent("weights")},),
    "QuarantineEntry": (_pattern("expires", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),),
    "HttpTarget": (_pattern("url", r"^https?://[^\s/?#]\S*$"),),
}


def suite_schema(document: str) -> Schema:
    """JSON Schema of a document: `agent` for agent.yaml, `policy` for holodeck-action.yaml."""
    return {"agent": _agent_schema, "policy": _policy_schema}[document]()


def _agent_schema() -> Schema:
    schema = _finished(AgentConfig, "agent.yaml")
    # The provider's entry in the project config may give what is missing here.
    reference = copy.deepcopy(schema["$defs"]["LLMProvider"])
    reference["required"] = ["provider"]
    reference.pop("allOf")
    schema["$defs"]["ModelReference"] = reference
    _point(schema["properties"]["model"], "ModelReference")
    _point(schema["$defs"]["EvaluationConfig"]["properties"]["model"], "ModelReference")
    return schema


def _policy_schema() -> Schema:
    schema = _finished(Policy, "holodeck-action.yaml")
    # YAML 1.1 reads an unquoted off as false.
    schema["$defs"]["CacheSettings"]["properties"]["mode"]["anyOf"].append({"const": False})
    return schema


def _point(schema: Schema, name: str) -> None:
    for entry in (schema, *schema.get("anyOf", ())):
        if "$ref" in entry:
            entry["$ref"] = f"#/$defs/{name}"


def _finished(root: type[FormatModel], title: str) -> Schema:
    generated = root.model_json_schema()
    describe_fields(generated, root)
    schema = _editable(generated)
    definitions: dict[str, Schema] = schema["$defs"]
    for name, rules in _RULES.items():
        target = schema if name == root.__name__ else definitions.get(name)
        if target is not None:
            target["allOf"] = [*target.get("allOf", ()), *copy.deepcopy(rules)]
    for kind, model in METRIC_TYPES.items():
        if kind not in ("standard", *TOLD_BY.values()) and model.__name__ in definitions:
            definition = definitions[model.__name__]
            definition["required"] = ["type", *definition.get("required", ())]
    if "MCPTool" in definitions:
        # Among other tools it needs its type.
        definitions["MCPTool"]["required"].insert(0, "type")
    definitions.update(copy.deepcopy(_TEXT_FORMS))
    return {"$schema": _DIALECT, "title": title, **schema}


def _editable(schema: Schema) -> Schema:
    """Rename bounds, drop generated titles, and admit the text forms of numbers, flags and choices."""
    result: Schema = {}
    for key, value in schema.items():
        if key in _MAPS_OF_SCHEMAS:
            result[key] = {name: _editable(child) for name, child in value.items()}
        elif key in _LISTS_OF_SCHEMAS:
            result[key] = [_editable(child) for child in value]
        elif key in _SCHEMAS and isinstance(value, dict):
            result[key] = _editable(value)
        elif key not in ("title", "discriminator") and not (key == "default" and value is None):
            result[_BOUNDS.get(key, key)] = value
    if "pattern" in result and result["pattern"] != r"\S":
        result["pattern"] += f"|{_VARIABLE}"
    form = _FORM_OF.get(result["type"]) if isinstance(result.get("type"), str) else None
    if form is None and "enum" in result:
        form = "variable"
    if form is None:
        return result
    outer: Schema = {key: result.pop(key) for key in ("default", "description", "examples") if key in result}
    return {"anyOf": [result, {"$ref": f"#/$defs/{form}"}], **outer}
