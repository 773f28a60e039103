"""JSON Schemas of agent.yaml and the policy file for editors, generated from the models.

The schemas use draft-07, the newest draft that all versions of the YAML language server support.

The schemas accept everything that the loader accepts, shorthands and `${VAR}` included, and refuse errors that are
visible within one mapping. Only the loader checks comparisons between two values, names that must exist elsewhere in
the suite, strings with a grammar (patterns, templates, JSONPath), and the range of quoted numbers.
"""

from __future__ import annotations

import ast
import copy
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.model.base import FLAG_TEXT, INTEGER_TEXT, NUMBER_TEXT, FormatModel, with_values
from holodeck_action.suite.model.cases import OF_TURNS
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.metric_types import PLACES, MetricTypes
from holodeck_action.suite.model.policy import BOUNDS_OF_METRICS, Policy
from holodeck_action.suite.model.schema_marks import PLACE, Place
from holodeck_action.suite.yaml.reading import Written

M = TypeVar("M", bound=BaseModel)


def describe_fields(schema: dict[str, Any], root_model: type[BaseModel], models: Mapping[str, type[BaseModel]]) -> None:
    """Add the docstrings of fields as descriptions to the schemas of a model and its parts.

    "Example: `VALUE`." at the end of a docstring is YAML, and becomes an example of the schema.

    Args:
        schema: the result of `model_json_schema`, which is changed.
        root_model: the model of the schema.
        models: every model that may be a part, by name.
    """
    definitions = {name: models[name] for name in schema.get("$defs", ()) if name in models}
    for model, part in [(root_model, schema), *((model, schema["$defs"][name]) for name, model in definitions.items())]:
        properties = part.get("properties", {})
        for owner in model.__mro__:
            if issubclass(owner, BaseModel) and owner is not BaseModel:
                for name, text in _field_docstrings(owner.__module__).get(owner.__qualname__, {}).items():
                    if name in properties:
                        described, _, example = text.partition(" Example: `")
                        properties[name].setdefault("description", described)
                        if example:
                            properties[name].setdefault("examples", [yaml.safe_load(example.removesuffix("`."))])


def all_subclasses(base: type[M]) -> Iterator[type[M]]:
    """Yield all subclasses of a model, recursively."""
    for model in base.__subclasses__():
        yield model
        yield from all_subclasses(model)


@cache
def _field_docstrings(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings of the fields in a module, by class and field."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        # A package without its sources.
        return {}
    return {node.name: dict(_docstrings_below(node.body)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docstrings_below(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
            yield field.target.id, " ".join(text.value.value.split())


Schema = dict[str, Any]

_DIALECT = "http://json-schema.org/draft-07/schema#"
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


def _without(*names: str) -> Schema:
    return {"properties": {name: {"type": "null"} for name in names}}


def _has(name: str, *values: Any) -> Schema:
    return {"type": "object", "required": [name], "properties": {name: {"enum": list(values)}}}


def _exactly_one(first: str, second: str) -> Schema:
    return {
        "oneOf": [
            {**with_values(first), "not": with_values(second)},
            {**with_values(second), "not": with_values(first)},
        ]
    }


def _at_least_one(*names: str) -> Schema:
    return {"anyOf": [with_values(name) for name in names]}


def _with_pattern(name: str, pattern: str) -> Schema:
    return {"properties": {name: {"pattern": f"{pattern}|{_VARIABLE}"}}}


_SEARCHES = {"contains": _has("type", "vectorstore", "hierarchical_document")}
_AZURE: Schema = {"if": _has("provider", "azure_openai"), "then": with_values("endpoint")}
_SERVER_URL = r"^(https|wss|ws):|^http://(localhost|127\.0\.0\.1|\[::1\])([:/?#]|$)"

# Rules of the models' validators, by model.
_RULES: dict[str, tuple[Schema, ...]] = {
    "Instructions": (_exactly_one("file", "inline"),),
    "FileInput": (_exactly_one("path", "url"),),
    "PromptTool": (_exactly_one("template", "file"),),
    "Subagent": (_exactly_one("prompt", "prompt_file"),),
    "LLMProvider": (_AZURE,),
    "CaseEntry": (
        {
            "if": with_values("turns"),
            "then": _without(*OF_TURNS),
            "else": {"if": with_values("simulate"), "then": _without("input"), "else": with_values("input")},
        },
    ),
    "VectorstoreTool": ({"if": with_values("vector_field"), "then": with_values("id_field")},),
    "KeywordIndex": ({"if": _has("provider", "opensearch"), "then": with_values("endpoint", "index_name")},),
    "HierarchicalDocumentTool": (
        {"if": _has("enable_reranking", True, 1, "true", "yes", "on"), "then": with_values("reranker_model")},
    ),
    "MCPTool": (
        {
            "if": _has("transport", "sse", "websocket", "http"),
            "then": {"allOf": [with_values("url"), _with_pattern("url", _SERVER_URL)]},
            "else": with_values("command"),
        },
    ),
    "AgentConfig": (
        {"not": with_values("test_cases", "test_cases_file")},
        {"properties": {"embedding_provider": {"not": _has("provider", "anthropic")}}},
        {
            "if": {"properties": {"model": _has("provider", "anthropic"), "tools": _SEARCHES}, "required": ["tools"]},
            "then": with_values("embedding_provider"),
        },
    ),
    "GateMetric": (_at_least_one(*(key for pair in BOUNDS_OF_METRICS for key in pair)),),
    "GateSummary": (
        {"if": _has("method", "weighted_average"), "then": with_values("weights"), "else": _without("weights")},
    ),
    "QuarantineEntry": (_with_pattern("expires", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),),
    "HttpTarget": (_with_pattern("url", r"^https?://[^\s/?#]\S*$"),),
}


def suite_schema(document: str, metrics: MetricTypes) -> Schema:
    """Return the JSON Schema of a document: `agent` for agent.yaml, `policy` for holodeck-action.yaml."""
    return {"agent": _agent_schema, "policy": _policy_schema}[document](metrics)


def _agent_schema(metrics: MetricTypes) -> Schema:
    schema = _finish_schema(AgentConfig, "agent.yaml", metrics)
    # The provider's entry in the project config may provide missing keys.
    reference = copy.deepcopy(schema["$defs"]["LLMProvider"])
    reference["required"] = ["provider"]
    reference.pop("allOf")
    schema["$defs"]["ModelReference"] = reference
    _replace_references(schema["properties"]["model"], "ModelReference")
    _replace_references(schema["$defs"]["EvaluationConfig"]["properties"]["model"], "ModelReference")
    return schema


def _policy_schema(metrics: MetricTypes) -> Schema:
    schema = _finish_schema(Policy, "holodeck-action.yaml", metrics)
    # YAML 1.1 reads an unquoted off as false.
    schema["$defs"]["CacheSettings"]["properties"]["mode"]["anyOf"].append({"const": False})
    return schema


def _replace_references(schema: Schema, name: str) -> None:
    for entry in (schema, *schema.get("anyOf", ())):
        if "$ref" in entry:
            entry["$ref"] = f"#/$defs/{name}"


def _finish_schema(root_model: type[FormatModel], title: str, metrics: MetricTypes) -> Schema:
    generated = _generate_schema(root_model, metrics)
    models = {model.__name__: model for model in all_subclasses(FormatModel)}
    describe_fields(generated, root_model, models)
    schema = _adapt_for_editors(generated)
    definitions: dict[str, Schema] = schema["$defs"]
    rules_of = _RULES | {name: model.SCHEMA_RULES for name, model in models.items() if model.SCHEMA_RULES}
    for name, rules in rules_of.items():
        target = schema if name == root_model.__name__ else definitions.get(name)
        if target is not None:
            target["allOf"] = [*target.get("allOf", ()), *copy.deepcopy(rules)]
    for metric in metrics.classes.values():
        if metric.IDENTIFYING_KEY is None and metric.__name__ in definitions:
            definition = definitions[metric.__name__]
            definition["required"] = ["type", *definition.get("required", ())]
    if "MCPTool" in definitions:
        # In a list of tools, an MCP tool needs its type.
        definitions["MCPTool"]["required"].insert(0, "type")
    definitions.update(copy.deepcopy(_TEXT_FORMS))
    return {"$schema": _DIALECT, "title": title, **schema}


def _generate_schema(root_model: type[FormatModel], metrics: MetricTypes) -> Schema:
    """Return the schema of a document with the metrics filled in."""
    models: list[type[BaseModel]] = [root_model, *metrics.classes.values()]
    found, shared = models_json_schema([(model, "validation") for model in models])
    definitions: dict[str, Schema] = shared["$defs"]
    checks = metrics.allowed("expect")
    for kind, metric in checks.items():
        definitions[_check_name(metric)] = _check_schema(kind, metric, definitions, metrics.written(kind))
    definitions["Checks"] = {
        "type": "object",
        "description": "`expect` as a mapping: the value of a check by its type.",
        "additionalProperties": False,
        "properties": {},
    }
    for kind, metric in checks.items():
        definitions["Checks"]["properties"][kind] = {"$ref": f"#/$defs/{_check_name(metric)}/properties/{kind}"}
    entries = {place: _entry_schema(place, found, metrics) for place in PLACES}
    schema = _fill_metrics(definitions.pop(root_model.__name__), entries)
    definitions = _fill_metrics(definitions, entries)
    used: set[str] = set()
    left = [schema]
    while left:
        fresh = set(_reference_names(left.pop())) - used
        used |= fresh
        left += (definitions[name] for name in fresh)
    return {"$defs": {name: found for name, found in definitions.items() if name in used}, **schema}


def _reference_names(schema: Any) -> Iterator[str]:
    """Yield the names of the definitions that a part of a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(reference := schema.get("$ref"), str):
            yield reference.removeprefix("#/$defs/").partition("/")[0]
        schema = list(schema.values())
    if isinstance(schema, list):
        for item in schema:
            yield from _reference_names(item)


def _check_name(metric: type[Metric]) -> str:
    return f"{metric.__name__.removesuffix('Metric')}Check"


def _check_schema(kind: str, metric: type[Metric], definitions: Mapping[str, Schema], written: Written) -> Schema:
    """Return the schema of an entry of `expect`: a check in short form, with the settings of its metric.

    Where the loader reads text as it is written, numbers and booleans are allowed.
    """
    settings = {name: {"$ref": f"#/$defs/{metric.__name__}/properties/{name}"} for name in metric.model_fields}
    short = str(metric.SHORT)
    scalars = ["number", "boolean"]
    values: dict[Written, Schema] = {
        "text": {"anyOf": [settings[short], {"type": scalars}]},
        "texts": {"type": "array", "items": {"type": ["string", *scalars]}, "minItems": 1},
    }
    value = values.get(written, settings[short])
    properties = {kind: value, **{name: item for name, item in settings.items() if name not in ("type", short)}}
    described = {"type": "object", "description": definitions[metric.__name__]["description"]}
    return {**described, "additionalProperties": False, "properties": properties, "required": [kind]}


def _entry_schema(place: Place, entries: Mapping[Any, Schema], metrics: MetricTypes) -> Schema:
    if place == "expect":
        allowed = metrics.allowed(place).values()
        return {"oneOf": [{"$ref": f"#/$defs/{_check_name(metric)}"} for metric in allowed]}
    schema: Schema = {"oneOf": [entries[metric, "validation"] for metric in metrics.allowed(place).values()]}
    return schema if place == "case" else {**schema, "required": ["type"]}


def _fill_metrics(schema: Any, entries: Mapping[Any, Schema]) -> Any:
    if isinstance(schema, list):
        return [_fill_metrics(item, entries) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "array" and schema["items"].get(PLACE) == "expect":
        return {"anyOf": [{**schema, "items": entries["expect"]}, {"$ref": "#/$defs/Checks"}]}
    if PLACE in schema:
        # Other keys, such as a description, belong to the field.
        rest = {key: value for key, value in schema.items() if key != PLACE}
        return {**copy.deepcopy(entries[schema[PLACE]]), **rest}
    return {key: _fill_metrics(value, entries) for key, value in schema.items()}


def _adapt_for_editors(schema: Schema) -> Schema:
    """Rename bounds, drop generated titles, and admit the text forms of numbers, flags and choices."""
    result: Schema = {}
    for key, value in schema.items():
        if key in _MAPS_OF_SCHEMAS:
            result[key] = {name: _adapt_for_editors(child) for name, child in value.items()}
        elif key in _LISTS_OF_SCHEMAS:
            result[key] = [_adapt_for_editors(child) for child in value]
        elif key in _SCHEMAS and isinstance(value, dict):
            result[key] = _adapt_for_editors(value)
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
