"""Blocks of agent.yaml and config.yaml whose fields this version checks and hands on."""

from __future__ import annotations

from dataclasses import replace

from tests.fields.blocks import (
    ABOVE_ZERO,
    ANY_TEXT,
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
BLOCK = replace(MAPPING, good=("{}",))

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
        "response_format": Values(("{type: object}", "agent.yaml"), "nowhere.json", NO_FILE),
        "tools": Values(("[{type: mcp, name: m, description: d, command: npx}]",), "search", "must be a list"),
        "observability": BLOCK,
        "embedding_provider": Values(
            ("{provider: openai, name: e}",),
            "{provider: anthropic, name: e}",
            "cannot be anthropic: it has no embedding models",
        ),
        "claude": BLOCK,
        "openai": BLOCK,
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
        "provider": choice("openai", "azure_openai", "anthropic", "ollama", endpoint="https://a"),
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

TYPES = ("function", "vectorstore", "hierarchical_document", "mcp", "prompt")
TYPE = Values((), "zzz", f'"zzz" is not allowed (allowed: {", ".join(TYPES)})')
NAME = Values(("other_1",), "a-b", "may hold only letters, digits and underscores")


def tool(model: str, base: dict[str, str], fields: dict[str, Values]) -> Block:
    """A block of a tool."""
    base = {"name": "t", "description": "d", **base}
    return Block(model, fields, place="tools: [%s]", path="tools[0]", base=base)


DATABASES = (
    *("postgres", "azure-ai-search", "qdrant", "weaviate", "chromadb", "faiss", "azure-cosmos-mongo"),
    *("azure-cosmos-nosql", "sql-server", "pinecone", "in-memory"),
)
DATABASE = Values(("shared", "{provider: qdrant, own_setting: 1}"), "[a]", "must be text")
TOOLS = (
    tool(
        "ToolModel",
        {"type": "mcp", "command": "npx"},
        {"name": NAME, "description": replace(TEXT, good=("other",)), "defer_loading": FLAG},
    ),
    tool(
        "FunctionTool",
        {"type": "function", "file": "f.py", "function": "f"},
        {"type": TYPE, "file": TEXT, "function": TEXT, "parameters": MAPPING, "is_retrieval": FLAG},
    ),
    tool(
        "VectorstoreTool",
        {"type": "vectorstore", "source": "s"},
        {
            "type": TYPE,
            "source": TEXT,
            "vector_field": Values(("v", "[v, w]"), "[]", "must have at least one entry", {"id_field": "i"}),
            "meta_fields": TEXTS,
            "chunk_size": WHOLE_ABOVE_ZERO,
            "chunk_overlap": count(0),
            "embedding_model": TEXT,
            "embedding_dimensions": count(1, 10000),
            "database": DATABASE,
            "top_k": count(1, 100),
            "min_similarity_score": UNIT,
            "record_path": TEXT,
            "record_prefix": ANY_TEXT,
            "meta_prefix": ANY_TEXT,
            "id_field": TEXT,
            "field_separator": ANY_TEXT,
            "delimiter": ANY_TEXT,
        },
    ),
    Block(
        "Database",
        {"provider": choice(*DATABASES), "connection_string": WRITTEN},
        place="tools: [{type: vectorstore, name: v, description: d, source: s, database: %s}]",
        path="tools[0].database",
        base={"provider": "qdrant"},
    ),
    tool(
        "HierarchicalDocumentTool",
        {"type": "hierarchical_document", "source": "s"},
        {
            "type": TYPE,
            "source": TEXT,
            "chunking_strategy": choice("structure", "token"),
            "max_chunk_tokens": count(100, 2000),
            "chunk_overlap": count(0, 200),
            "document_domain": choice(
                "none", "us_legislative", "au_legislative", "academic", "technical", "legal_contract"
            ),
            "max_subsection_depth": count(1),
            "search_mode": choice("semantic", "keyword", "hybrid"),
            "top_k": count(1, 100),
            "min_score": UNIT,
            "semantic_weight": number(0, 1, "1.5", search_mode="semantic"),
            "keyword_weight": number(0, 1, "1.5", search_mode="keyword"),
            "exact_weight": number(0, 1, "1.5", search_mode="keyword"),
            "rrf_k": count(1),
            "contextual_embeddings": FLAG,
            "context_max_tokens": replace(count(50, 200), good=("60",)),
            "context_concurrency": count(1, 50),
            "context_model": MODEL,
            "extract_definitions": FLAG,
            "extract_cross_references": FLAG,
            "enable_reranking": replace(FLAG, beside={"reranker_model": MODEL.good[0]}),
            "reranker_model": MODEL,
            "embedding_model": TEXT,
            "database": DATABASE,
            "keyword_index": BLOCK,
            "defer_loading": FLAG,
        },
    ),
    Block(
        "KeywordIndex",
        {
            "provider": choice("in-memory", "opensearch", endpoint="e", index_name="i"),
            "endpoint": TEXT,
            "index_name": TEXT,
            "username": WRITTEN,
            "password": WRITTEN,
            "api_key": WRITTEN,
            "verify_certs": FLAG,
            "timeout_seconds": ABOVE_ZERO,
        },
        place="tools: [{type: hierarchical_document, name: h, description: d, source: s, keyword_index: %s}]",
        path="tools[0].keyword_index",
    ),
    tool(
        "MCPTool",
        {"type": "mcp", "command": "npx"},
        {
            "type": TYPE,
            "transport": choice("stdio", "sse", "websocket", "http", url="https://a"),
            "command": choice("npx", "node", "uvx", "docker"),
            "args": Values(("[-y, 8]",), "x", "must be a list"),
            "env": Values(("{A: 1}",), "A=1", "must be a mapping"),
            "env_file": TEXT,
            "encoding": TEXT,
            "url": Values(
                ("https://a", "wss://a", "http://localhost:1"),
                "http://a",
                "must start with https, wss or ws (http only for localhost)",
                {"transport": "sse"},
            ),
            "headers": Values(("{A: 1}",), "A=1", "must be a mapping"),
            "timeout": ABOVE_ZERO,
            "sse_read_timeout": ABOVE_ZERO,
            "terminate_on_close": FLAG,
            "config": MAPPING,
            "load_tools": FLAG,
            "load_prompts": FLAG,
            "request_timeout": ABOVE_ZERO,
            "is_retrieval": FLAG,
            "registry_name": TEXT,
        },
    ),
    tool(
        "PromptTool",
        {"type": "prompt", "template": "t", "parameters": "{a: 1}"},
        {
            "type": TYPE,
            "template": TEXT,
            "file": replace(TEXT, beside={"template": None}),
            "parameters": Values(("{b: 1}",), "{}", "must have at least one entry"),
            "model": MODEL,
        },
    ),
)

METRIC_TYPES = "standard, geval, rag, code, tool_correctness, trajectory, retrieval, length"
METRIC_TYPE = Values((), "zzz", f'"zzz" is not allowed (allowed: {METRIC_TYPES})')


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
                ("[actual_output, input, expected_output, context, retrieval_context]",),
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
            "axes": BLOCK,
            "max_cycles": count(1),
            "numeric_phase": BLOCK,
            "textual_phase": BLOCK,
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
        "path": replace(TEXT, good=("data.pdf",), beside={"url": None}),
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


def telemetry(model: str, path: str, fields: dict[str, Values]) -> Block:
    """A block at or below `observability`."""
    names = [name for name in path.split(".") if name]
    place = "".join(f"{{{name}: " for name in names) + "%s" + "}" * len(names)
    return Block(model, fields, place=f"observability: {place}", path=f"observability{path}")


OBSERVABILITY = (
    telemetry(
        "Observability",
        "",
        {
            "enabled": FLAG,
            "disable_provider_tracing": FLAG,
            "service_name": TEXT,
            "traces": BLOCK,
            "metrics": BLOCK,
            "logs": BLOCK,
            "exporters": BLOCK,
            "resource_attributes": Values(("{a: 1}",), "3", "must be a mapping"),
        },
    ),
    telemetry(
        "Traces",
        ".traces",
        {
            "enabled": FLAG,
            "sample_rate": UNIT,
            "capture_content": FLAG,
            "redaction_patterns": TEXTS,
            "max_queue_size": count(1),
            "max_export_batch_size": count(1),
        },
    ),
    telemetry(
        "MetricsExport",
        ".metrics",
        {"enabled": FLAG, "export_interval_ms": WHOLE_ABOVE_ZERO, "include_semantic_kernel_metrics": FLAG},
    ),
    telemetry(
        "Logs",
        ".logs",
        {"enabled": FLAG, "level": TEXT, "include_trace_context": FLAG, "filter_namespaces": TEXTS},
    ),
    telemetry(
        "Exporters",
        ".exporters",
        {"console": BLOCK, "otlp": BLOCK, "prometheus": MAPPING, "azure_monitor": MAPPING},
    ),
    telemetry(
        "ConsoleExporter",
        ".exporters.console",
        {"enabled": FLAG, "pretty_print": FLAG, "include_timestamps": FLAG},
    ),
    telemetry(
        "OTLPExporter",
        ".exporters.otlp",
        {
            "enabled": FLAG,
            "endpoint": TEXT,
            "protocol": choice("grpc", "http"),
            "headers": Values(("{A: 1}",), "A=1", "must be a mapping"),
            "timeout_ms": WHOLE_ABOVE_ZERO,
            "compression": TEXT,
            "insecure": FLAG,
        },
    ),
)

EFFORT = choice("low", "medium", "high", "max")
CLAUDE = Block(
    "ClaudeConfig",
    {
        "working_directory": TEXT,
        "permission_mode": choice("manual", "acceptEdits", "acceptAll"),
        "max_turns": count(1),
        "max_concurrent_sessions": count(1, 500),
        "session_memory_estimate_mib": count(50, 2000),
        "extended_thinking": BLOCK,
        "web_search": FLAG,
        "bash": BLOCK,
        "file_system": BLOCK,
        "agents": Values(("{a: {description: d, prompt: p}}",), "3", "must be a mapping"),
        "allowed_tools": TEXTS,
        "disallowed_tools": TEXTS,
        "effort": EFFORT,
        "max_budget_usd": ABOVE_ZERO,
        "fallback_model": TEXT,
        "setting_sources": Values(("[user, project, local, all]",), "user", "must be a list"),
        "i_understand_this_is_unsafe": FLAG,
        "disable_default_hooks": FLAG,
        "disable_subprocess_env_scrub": FLAG,
    },
    place="claude: %s",
    path="claude",
)
OPENAI = Block(
    "OpenAIConfig",
    {
        "max_concurrent_sessions": count(1, 500),
        "session_memory_estimate_mib": count(50, 2000),
        "max_turns": count(1),
        "i_understand_this_is_unsafe": FLAG,
        "disable_default_hooks": FLAG,
        "disable_subprocess_env_scrub": FLAG,
        "permissions": BLOCK,
        "effort": EFFORT,
        "max_budget_usd": ABOVE_ZERO,
        "fallback_model": TEXT,
        "disallowed_tools": TEXTS,
    },
    place="openai: %s",
    path="openai",
)
BACKENDS = (
    CLAUDE,
    Block(
        "ExtendedThinking",
        {"enabled": FLAG, "budget_tokens": count(1000, 100000)},
        place="claude: {extended_thinking: %s}",
        path="claude.extended_thinking",
    ),
    Block(
        "BashAccess",
        {"enabled": FLAG, "excluded_commands": TEXTS, "allow_unsafe": FLAG},
        place="claude: {bash: %s}",
        path="claude.bash",
    ),
    Block(
        "FileAccess",
        {"read": FLAG, "write": FLAG, "edit": FLAG},
        place="claude: {file_system: %s}",
        path="claude.file_system",
    ),
    Block(
        "Subagent",
        {
            "description": TEXT,
            "prompt": TEXT,
            "prompt_file": replace(TEXT, beside={"prompt": None}),
            "tools": TEXTS,
            "model": choice("sonnet", "opus", "haiku", "inherit"),
        },
        place="claude: {agents: {a: %s}}",
        path="claude.agents.a",
        base={"description": "d", "prompt": "p"},
    ),
    OPENAI,
    Block(
        "ToolPermissions",
        {
            "allowed_tools": Values(
                ("[a]",), "[a, b]", "names a tool that disallowed_tools names too", {"disallowed_tools": "[b]"}
            ),
            "disallowed_tools": TEXTS,
        },
        place="openai: {permissions: %s}",
        path="openai.permissions",
    ),
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

BLOCKS = (
    *(AGENT, INSTRUCTIONS, PROVIDER, *TOOLS, *METRICS, *OPTIMIZER, FILES, EXECUTION),
    *(*OBSERVABILITY, *BACKENDS, *PROJECT),
)
