"""The agent, its metrics and cases, and config.yaml: fields that this version checks and hands on."""

from __future__ import annotations

from dataclasses import replace

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.model.providers import COMPATIBLE
from tests.fields.blocks import (
    ABOVE_ZERO,
    ANY_TEXT,
    EMPTY,
    FLAG,
    MAPPING,
    MODEL,
    NOT_NEGATIVE,
    TEXT,
    TEXTS,
    UNIT,
    WHOLE_ABOVE_ZERO,
    WRITTEN,
    Block,
    Values,
    choice,
    count,
    number,
)

NO_FILE = "the file does not exist (allowed: a path relative to agent.yaml)"

AGENT = Block(
    "AgentConfig",
    {
        "name": replace(TEXT, good=("other",)),
        "description": TEXT,
        "author": TEXT,
        "model": MODEL,
        "instructions": Values(
            ("{inline: other}",), "hi", "must be a mapping: write {inline: your text} or {file: path of the text}"
        ),
        "response_format": Values(("{type: object}",), "nowhere.json", NO_FILE),
        "tools": Values(("[{type: mcp, name: m, description: d, command: npx}]",), "search", "must be a list"),
        "observability": EMPTY,
        "embedding_provider": Values(
            ("{provider: openai, name: e}",),
            "{provider: anthropic, name: e}",
            "cannot be anthropic: it has no embedding models",
        ),
        "claude": EMPTY,
        "openai": EMPTY,
        "deployment": MAPPING,
    },
)
INSTRUCTIONS = Block(
    "Instructions",
    {"inline": TEXT, "file": Values(("agent.yaml",), "nowhere.md", NO_FILE, {"inline": None})},
    place="instructions: %s",
    path="instructions",
    base={"inline": "hi"},
)
PROVIDER = Block(
    "LLMProvider",
    {
        "provider": choice("openai", "azure_openai", "anthropic", "ollama", *COMPATIBLE, endpoint="https://a"),
        "name": TEXT,
        "temperature": replace(number(0, 2, "2.5"), good=("0.7", "null")),
        "max_tokens": replace(WHOLE_ABOVE_ZERO, good=("7", "null")),
        "top_p": UNIT,
        "endpoint": TEXT,
        "api_key": WRITTEN,
        "api_version": TEXT,
        "auth_provider": choice("api_key", "oauth_token", "bedrock", "vertex", "foundry", "custom"),
    },
    place="model: %s",
    path="model",
    base={"provider": "openai", "name": "m"},
)

TYPES = ", ".join(built_in().classes)
METRIC_TYPE = Values((), "zzz", f'"zzz" is not allowed (allowed: {TYPES})')


def metric(model: str, base: dict[str, str], fields: dict[str, Values]) -> Block:
    """A block of a metric."""
    place = "evaluations: {metrics: [%s]}"
    return Block(model, {"type": METRIC_TYPE, **fields}, place=place, path="evaluations.metrics[0]", base=base)


RAG_METRICS = ("faithfulness", "contextual_relevancy", "contextual_precision", "contextual_recall", "answer_relevancy")
METRICS = (
    metric(
        "StandardMetric",
        {"type": "standard", "metric": "relevance", "threshold": "0.5"},
        {"custom_prompt": TEXT, "model": MODEL},
    ),
    metric(
        "GEvalMetric",
        {"type": "geval", "name": "g", "criteria": "c"},
        {
            "name": TEXT,
            "criteria": TEXT,
            "evaluation_steps": TEXTS,
            "evaluation_params": Values(
                ("[actual_output, input, expected_output, retrieval_context]",),
                "[input]",
                "must contain actual_output: it is the answer that is graded",
            ),
            "strict_mode": FLAG,
            "threshold": UNIT,
            "model": MODEL,
        },
    ),
    metric(
        "RagMetric",
        {"type": "rag", "metric_type": "faithfulness"},
        {
            "metric_type": choice(*RAG_METRICS),
            "threshold": UNIT,
            "include_reason": FLAG,
            "model": MODEL,
        },
    ),
    metric("CodeMetric", {"type": "code", "grader": "a:b"}, {}),
    metric("ToolCorrectnessMetric", {"type": "tool_correctness", "threshold": "0.5"}, {}),
    metric("DeepEvalToolCorrectnessMetric", {"type": "deepeval_tool_correctness"}, {}),
    metric("TrajectoryMetric", {"type": "trajectory", "enabled": "false"}, {}),
    metric("RetrievalMetric", {"type": "retrieval", "metric": "map_at_k", "enabled": "false"}, {}),
    metric("LengthMetric", {"type": "length", "max_words": "3"}, {}),
    Block(
        "EvaluationConfig",
        {"model": MODEL, "optimizer": Values(("{loss: {equality: 1}}",), "3", "must be a mapping")},
        place="evaluations: %s",
        path="evaluations",
        base={"metrics": "[{type: standard, metric: equality}]"},
    ),
)


def optimizer(model: str, place: str, path: str, base: dict[str, str], fields: dict[str, Values]) -> Block:
    """A block below `evaluations.optimizer`."""
    place = f"evaluations: {{metrics: [{{type: standard, metric: equality}}], optimizer: {place}}}"
    return Block(model, fields, place=place, path=f"evaluations.optimizer{path}", base=base)


OPTIMIZER = (
    optimizer(
        "Optimizer",
        "%s",
        "",
        {"loss": "{equality: 1}"},
        {
            "loss": Values(("{equality: 2}",), "{}", "must have at least one entry"),
            "axes": EMPTY,
            "max_cycles": count(1),
            "numeric_phase": EMPTY,
            "textual_phase": EMPTY,
            "min_delta": NOT_NEGATIVE,
            "seed": Values(("7",), "x", "must be a whole number"),
        },
    ),
    optimizer(
        "OptimizerAxes",
        "{loss: {equality: 1}, axes: %s}",
        ".axes",
        {},
        {
            "numeric": Values(("[{path: p, type: int, range: [1, 2]}]",), "p", "must be a list"),
            "textual": Values(("[{path: p}]",), "p", "must be a list"),
        },
    ),
    optimizer(
        "NumericAxis",
        "{loss: {equality: 1}, axes: {numeric: [%s]}}",
        ".axes.numeric[0]",
        {"path": "p", "type": "int", "range": "[1, 2]"},
        {
            "path": TEXT,
            "type": choice("float", "int", "categorical"),
            "range": Values(("[3, 4]",), "3", "must be a list"),
        },
    ),
    optimizer(
        "TextualAxis",
        "{loss: {equality: 1}, axes: {textual: [%s]}}",
        ".axes.textual[0]",
        {"path": "p"},
        {"path": TEXT, "max_chars": count(1)},
    ),
    optimizer(
        "OptimizerPhase",
        "{loss: {equality: 1}, numeric_phase: %s}",
        ".numeric_phase",
        {},
        {"max_trials": count(1), "patience": count(1)},
    ),
)

FILES = Block(
    "FileInput",
    {
        "path": replace(TEXT, good=("agent.yaml",), beside={"url": None}),
        "url": TEXT,
        "type": choice("image", "pdf", "text", "excel", "word", "powerpoint", "csv"),
        "description": ANY_TEXT,
        "pages": Values(("[1, 2]",), "1", "must be a list"),
        "sheet": ANY_TEXT,
        "range": ANY_TEXT,
        "cache": FLAG,
    },
    place="test_cases: [{input: a, ground_truth: b, files: [%s]}]",
    path="test_cases[0].files[0]",
    base={"url": "https://a", "type": "pdf"},
)

EXECUTION = Block(
    "ExecutionConfig",
    {
        "file_timeout": ABOVE_ZERO,
        "download_timeout": ABOVE_ZERO,
        "cache_enabled": FLAG,
        "cache_dir": TEXT,
        "verbose": FLAG,
        "quiet": FLAG,
    },
    place="execution: %s",
    path="execution",
)


PROJECT = (
    Block(
        "ProjectConfig",
        {"deployment": MAPPING, "mcp_servers": Values(("[]",), "3", "must be a list")},
        place="%s",
        file="config.yaml",
    ),
    Block(
        "VectorstoreConfig",
        {"provider": TEXT, "connection_string": WRITTEN, "options": MAPPING},
        place="vectorstores: {shared: %s}",
        path="vectorstores.shared",
        base={"provider": "qdrant"},
        file="config.yaml",
    ),
)

BLOCKS = (*(AGENT, INSTRUCTIONS, PROVIDER, *METRICS, *OPTIMIZER, FILES, EXECUTION, *PROJECT),)
