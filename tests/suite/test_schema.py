"""The JSON Schemas accept what the loader accepts, and refuse what one mapping alone shows to be wrong."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.model.policy import Policy
from holodeck_action.suite.model.schema_marks import METRICS
from holodeck_action.suite.suite_schemas import suite_schema
from holodeck_action.suite.yaml.reading import read_yaml
from holodeck_action.text.foreign import Foreign
from tests.suite.folders import complaints

MODELS: dict[str, type[BaseModel]] = {"agent": AgentConfig, "policy": Policy}

MODEL = {"provider": "openai", "name": "m", "temperature": 0.1, "api_key": "k"}
AGENT: dict[str, Any] = {
    "name": "a",
    "description": "d",
    "model": {**MODEL, "max_tokens": 5, "top_p": 0.5, "endpoint": "https://x", "auth_provider": "api_key"},
    "instructions": {"inline": "hi"},
    "response_format": {"type": "object"},
    "embedding_provider": {"provider": "openai", "name": "e"},
    "tools": [
        {"type": "function", "name": "f", "description": "d", "file": "f.py", "function": "g", "is_retrieval": True},
        {
            "type": "vectorstore",
            "name": "v",
            "description": "d",
            "source": "s",
            "vector_field": ["a"],
            "id_field": "i",
            "database": {"provider": "qdrant", "url": "u", "connection_string": "c"},
            "top_k": 3,
        },
        {
            "type": "hierarchical_document",
            "name": "h",
            "description": "d",
            "source": "s",
            "database": "db",
            "enable_reranking": True,
            "reranker_model": MODEL,
            "keyword_index": {"provider": "opensearch", "endpoint": "e", "index_name": "i", "password": 7},
        },
        {"type": "mcp", "name": "m", "description": "d", "command": "npx", "args": ["-y", 8], "env": {"A": 1}},
        {
            "type": "mcp",
            "name": "w",
            "description": "d",
            "transport": "http",
            "url": "https://x",
            "headers": {"A": "b"},
        },
        {"type": "prompt", "name": "p", "description": "d", "template": "t", "parameters": {"a": 1}},
    ],
    "evaluations": {
        "model": MODEL,
        "metrics": [
            {"type": "standard", "metric": "rouge", "threshold": 0.5, "variant": "rouge1", "enabled": True},
            {"type": "standard", "metric": "relevance", "threshold": 4, "scale": 5},
            {"type": "geval", "name": "g", "criteria": "c", "evaluation_params": ["actual_output", "input"]},
            {"type": "rag", "metric_type": "faithfulness", "threshold": 0.5, "include_reason": False},
            {"type": "code", "grader": "a.b:c", "scale": {"min": 0, "max": 10}, "pass_values": ["good"]},
            {"type": "tool_correctness", "args": "subset", "score": "recall"},
            {"type": "trajectory", "mode": "lcs_f1", "threshold": 0.5},
            {"type": "retrieval", "metric": "recall_at_k", "k": [1, 5]},
            {"type": "retrieval", "metric": "ndcg_at_k", "k": 3},
            {"type": "length", "min_words": 1, "max_words": 100},
            {
                "type": "generation",
                "threshold": 0.5,
                "metrics": {
                    "refusal": {"enabled": False},
                    "completeness": {"criteria": "c", "evaluation_params": ["actual_output"], "rubric": ["a", "b"]},
                },
            },
            {"type": "query_transformation", "score_weights": {"completeness": 2}, "parallel": False},
            {"type": "summarization", "model": MODEL},
            {"type": "lm_retrieval", "include_reason": False},
            {"type": "agent", "metrics": {"tool_correctness": {"evaluation_params": ["input_parameters"]}}},
            {"type": "refusal", "expect": "refusal"},
            {"type": "trajectory_accuracy", "threshold": 0.5},
            {"type": "quality", "threshold": 0.5, "model": MODEL},
            {"type": "factual_accuracy"},
            {"type": "toxicity", "threshold": 0.1},
            {"type": "relevance", "name": "fits"},
            {"type": "composite", "metrics": [{"type": "refusal"}], "threshold": 0.5},
            {"type": "deepeval_tool_correctness", "evaluation_params": ["input_parameters"], "strict_mode": True},
        ],
        "optimizer": {"loss": {"rouge": 1}, "axes": {"numeric": [{"path": "p", "type": "float", "range": [0, 1]}]}},
    },
    "execution": {"llm_timeout": 5, "cache_enabled": True, "parallel_test_cases": 3},
    "observability": {"enabled": True, "traces": {"sample_rate": 0.5}, "exporters": {"otlp": {"headers": {"A": 1}}}},
    "claude": {
        "max_turns": 3,
        "extended_thinking": {"budget_tokens": 2000},
        "agents": {"x": {"description": "d", "prompt": "p"}},
    },
    "openai": {"permissions": {"allowed_tools": ["f"]}, "max_budget_usd": 0.5},
    "deployment": {"port": 80},
    "test_cases": [
        {
            "name": "c",
            "input": "i",
            "ground_truth": 42,
            "expected_tools": [
                "f",
                {"name": "g", "args": {"a": {"fuzzy": "x"}, "b": {"regex": "x"}, "c": [1]}, "count": 2},
            ],
            "files": [{"path": "x.pdf", "type": "pdf", "pages": [1]}],
            "retrieval_context": ["a"],
            "evaluations": [{"metric": "bleu", "threshold": 0.1}, {"type": "length", "max_words": 3}],
        },
        {"input": "i", "expected_tools": {"tools": ["f"], "order": "strict"}},
        {"name": "t", "turns": [{"input": "i", "turn_config": {"a": {"b": 1}}, "expected_tools": []}, {"input": "j"}]},
    ],
}
POLICY: dict[str, Any] = {
    "target": {
        "type": "http",
        "url": "https://x",
        "headers": {"A": 1},
        "request": {"m": "x"},
        "response": {"text": "$.a"},
    },
    "metrics": [{"type": "standard", "metric": "rouge"}],
    "cases": {
        "c": {
            "evaluations": [{"metric": "bleu"}],
            "retrieval": {"ground_truth_chunk_ids": ["a", 3]},
            "expected_trajectory": [{"name": "f", "args": {"a": 1}}],
            "tags": ["x"],
            "weight": 2,
            "repeat": 5,
            "min_pass": 4,
        },
        "d": {"retrieval": {"ground_truth_chunk_ids": {"a": 1, "b": 0.5}}},
    },
    "judges": {"models": [MODEL], "aggregation": "mean", "max_concurrent_judges": 2},
    "trials": {"repeat": 2, "min_pass": 1, "stop_when_decided": False},
    "gates": {
        "min_pass_rate": 0.5,
        "max_errors": 0,
        "metrics": {"rouge": {"min_mean": 0.5}, "toxicity": {"max_mean": 0.5, "max_upper_bound": 0.6, "max_p90": 0.7}},
        "summary": {"method": "weighted_average", "weights": {"rouge": 1}, "min": 0.5},
    },
    "baseline": {"source": "branch:main", "margin": 0.1, "on_regressed": "warn"},
    "quarantine": [{"case": "c", "reason": "r", "owner": "o", "expires": "2027-01-31"}],
    "budget": {"max_cost_usd": 1, "max_minutes": 5},
    "limits": {"concurrency": 3, "turn_timeout_s": 1.5},
    "cache": {"mode": "off", "ttl_days": 3},
    "vectorstores": {"external": False},
    "secrets": ["x", 3],
}
BASES = {"agent": AGENT, "policy": POLICY}
NEEDED = {"agent": ("name", "model", "instructions"), "policy": ()}

# What a schema cannot say: comparisons between values, and texts with a grammar of their own.
BEYOND_SCHEMA = {
    "threshold",
    "max_count",
    "max",
    "length_range",
    "weights",
    "allowed_tools",
    "matcher_pattern",
    "target_template",
    "target_path",
}
RANGES = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}


@cache
def schema_of(name: str) -> dict[str, Any]:
    return suite_schema(name, built_in())


@cache
def validator_of(name: str) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(schema_of(name))


def refusals(name: str, document: Any) -> list[ErrorDetails]:
    """What the loader's model finds in a document as YAML."""
    text = yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=True)
    read = read_yaml(Foreign(text.encode()), file="f.yaml", environ={})
    assert not read.problems
    try:
        MODELS[name].model_validate(read.root, context={METRICS: built_in()})
    except ValidationError as error:
        return error.errors()
    return []


def agree(name: str, document: Any) -> None:
    found = refusals(name, document)
    accepted = validator_of(name).is_valid(document)
    if not found:
        assert accepted, next(validator_of(name).iter_errors(document)).message
    elif accepted:
        unexplained = [
            error
            for error in found
            if error["type"] not in BEYOND_SCHEMA and not (error["type"] in RANGES and isinstance(error["input"], str))
        ]
        assert not unexplained, unexplained


@pytest.mark.needs
@pytest.mark.parametrize("name", ["agent", "policy"])
def test_the_schemas_are_schemas(name: str) -> None:
    jsonschema.Draft7Validator.check_schema(schema_of(name))
    assert schema_of(name)["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert not refusals(name, BASES[name])
    agree(name, BASES[name])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path below a document's root."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for key, child in children:
        found += places(child, (*path, key))
    return found


JUNK: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    0.5,
    3,
    2000.0,
    "",
    " ",
    "text",
    "0.5",
    "1",
    "on",
    [],
    {},
    ["x"],
    [1],
    {"x": 1},
]
DELETE, UNKNOWN_KEY = object(), object()


def change(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    holder = changed
    for part in path[:-1]:
        holder = holder[part]
    if value is DELETE:
        del holder[path[-1]]
    elif value is UNKNOWN_KEY:
        target = holder[path[-1]]
        if not isinstance(target, dict):
            holder[path[-1]] = {"nobody_knows": target}
        else:
            target["nobody_knows"] = 1
    else:
        holder[path[-1]] = value
    return changed


def filled_from_config(name: str, path: tuple[Any, ...]) -> bool:
    """Whether the project config may supply what is missing here."""
    return name == "agent" and path in {
        (*model, key) for model in (("model",), ("evaluations", "model")) for key in ("name", "endpoint")
    }


def single(value: Any) -> list[Any]:
    """A value with one item of each list of mappings, so that every item is there once."""
    if isinstance(value, dict):
        found = {key: single(child) for key, child in value.items()}
        first = {key: children[0] for key, children in found.items()}
        return [first, *({**first, key: child} for key, children in found.items() for child in children[1:])]
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return [[child] for item in value for child in single(item)]
    return [value]


def small(name: str) -> Iterator[tuple[dict[str, Any], list[tuple[Any, ...]]]]:
    """Documents of one key beside those without which there is none, and the paths of this key."""
    needed = {key: BASES[name][key] for key in NEEDED[name]}
    if needed:
        yield needed, places(needed)
    for key in BASES[name].keys() - needed.keys():
        for child in single(BASES[name][key]):
            yield {**needed, key: child}, [(key, *path) for path in [(), *places(child)]]


SMALL = {name: list(small(name)) for name in BASES}


@pytest.mark.full
@pytest.mark.parametrize("name", ["agent", "policy"])
@settings(max_examples=300)
@given(data=st.data())
def test_schema_and_loader_agree_on_damaged_documents(name: str, data: st.DataObject) -> None:
    document, _ = data.draw(st.sampled_from(SMALL[name]))
    for _ in range(data.draw(st.integers(1, 2))):
        if not (found := places(document)):
            break
        path = data.draw(st.sampled_from(found))
        value = data.draw(st.sampled_from([*JUNK, DELETE, UNKNOWN_KEY]))
        if value is DELETE and filled_from_config(name, path):
            return
        document = change(document, path, value)
    agree(name, document)


@pytest.mark.full
@pytest.mark.parametrize("name", ["agent", "policy"])
@pytest.mark.parametrize("value", [DELETE, UNKNOWN_KEY, "", None], ids=["missing", "misspelt", "empty", "null"])
def test_every_single_key_may_be_wrong_alike(name: str, value: Any) -> None:
    for document, paths in SMALL[name]:
        for path in paths:
            if not filled_from_config(name, path):
                agree(name, change(document, path, value))


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("agent", ("evaluations", "metrics"), [{"metric": "rouge"}]),
        ("agent", ("evaluations", "metrics"), []),
        ("agent", ("test_cases",), [{"input": "a", "evaluations": [{"metric": "recall_at_k"}]}]),
        ("agent", ("test_cases",), [{"input": "a", "turns": [{"input": "b"}]}]),
        ("agent", ("test_cases",), [{"turns": []}]),
        ("agent", ("test_cases",), [{"turns": [{"input": "b"}], "expect": [{"contains": "x"}]}]),
        ("agent", ("test_cases",), [{"input": "a", "expected_tools": [""]}]),
        ("agent", ("test_cases",), [{"input": "a", "expected_tools": [{"name": "f", "count": True}]}]),
        ("agent", ("test_cases",), [{"input": "a", "expected_tools": [{"name": "f", "args": {"a": {"fuzzy": 1}}}]}]),
        (
            "agent",
            ("test_cases",),
            [{"input": "a", "expected_tools": [{"name": "f", "args": {"a": {"fuzzy": "1", "x": 2}}}]}],
        ),
        ("agent", ("test_cases",), [{"input": "a", "ground_truth": ["b"]}]),
        ("agent", ("test_cases",), [{"input": "a", "files": [{"type": "pdf", "path": "p", "url": "u"}]}]),
        ("agent", ("instructions",), "hi"),
        ("agent", ("instructions",), {"file": "a", "inline": "b"}),
        ("agent", ("response_format",), 3),
        ("agent", ("embedding_provider",), {"provider": "anthropic", "name": "m"}),
        ("agent", ("model", "organization"), "o"),
        ("agent", ("model", "temperature"), 2.1),
        ("agent", ("tools", 1, "id_field"), None),
        ("agent", ("tools", 3, "command"), "ruby"),
        ("agent", ("tools", 4, "url"), "http://example.org"),
        ("agent", ("claude", "subagents"), {}),
        ("policy", ("target",), "recordd:x"),
        ("policy", ("target",), "python:a"),
        ("policy", ("target",), {"type": "command", "url": "http://a"}),
        ("policy", ("metrics",), [{"metric": "rouge"}]),
        ("policy", ("gates", "min_pass_rate"), 1.1),
        ("policy", ("gates", "metrics"), {"rouge": {}}),
        ("policy", ("gates", "summary"), {"method": "minimum", "weights": {"a": 1}, "min": 0.1}),
        ("policy", ("quarantine", 0, "expires"), "soon"),
        ("policy", ("baseline", "source"), "somewhere"),
        ("policy", ("cases", "c", "retrieval"), {"ground_truth_chunk_ids": []}),
    ],
)
def test_both_refuse(name: str, path: tuple[Any, ...], value: Any) -> None:
    document = change(BASES[name], path, value)
    assert refusals(name, document)
    assert not validator_of(name).is_valid(document)


@pytest.mark.needs
@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("agent", ("test_cases", 0, "ground_truth"), 1.5),
        ("agent", ("test_cases", 0, "ground_truth"), True),
        ("agent", ("test_cases", 0, "ground_truth"), None),
        ("agent", ("model", "temperature"), "0.7"),
        ("agent", ("model", "api_key"), 123),
        ("agent", ("evaluations", "metrics", 0, "enabled"), "off"),
        ("agent", ("evaluations", "metrics", 7, "k"), 3),
        ("agent", ("tools",), None),
        ("policy", ("target",), "recorded:runs/a.jsonl"),
        ("policy", ("target",), "python:a.b:c"),
        ("policy", ("target",), "command:node a.js"),
        ("policy", ("target",), "http:https://a/b"),
        ("policy", ("target",), "https://a/b"),
        ("policy", ("target",), None),
        ("policy", ("gates",), None),
        ("policy", ("cache", "mode"), False),
    ],
)
def test_both_accept(name: str, path: tuple[Any, ...], value: Any) -> None:
    document = change(BASES[name], path, value)
    assert not refusals(name, document)
    assert validator_of(name).is_valid(document)


@pytest.mark.needs
def test_variables_may_stand_for_numbers_flags_and_choices() -> None:
    document = change(AGENT, ("model", "temperature"), "${T}")
    document = change(document, ("model", "provider"), "${P}")
    document = change(document, ("evaluations", "metrics", 0, "enabled"), "${E:-true}")
    document = change(document, ("evaluations", "metrics", 4, "grader"), "${G}")
    assert validator_of("agent").is_valid(document)


@pytest.mark.needs
def test_the_project_config_may_complete_the_models() -> None:
    document = change(AGENT, ("model",), {"provider": "azure_openai"})
    assert validator_of("agent").is_valid(document)
    document = change(AGENT, ("embedding_provider",), {"provider": "openai"})
    assert not validator_of("agent").is_valid(document)


def test_cases_come_from_one_place(tmp_path: Path) -> None:
    document = {**AGENT, "test_cases_file": "cases.yaml"}
    assert not validator_of("agent").is_valid(document)
    text = yaml.safe_dump(document, sort_keys=False)
    assert any("cannot be combined with test_cases: keep one of them" in line for line in complaints(tmp_path, text))


@pytest.mark.parametrize("name", ["agent", "policy"])
def test_every_definition_is_described(name: str) -> None:
    for title, definition in schema_of(name)["$defs"].items():
        assert definition.get("description"), title
