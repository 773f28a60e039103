"""Tools: fields that this version checks and hands on."""

from __future__ import annotations

from dataclasses import replace

from tests.fields.agent_blocks import NO_FILE
from tests.fields.blocks import (
    ABOVE_ZERO,
    ANY_TEXT,
    EMPTY,
    FLAG,
    MAPPING,
    MODEL,
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
BLOCKS = (
    tool(
        "ToolModel",
        {"type": "mcp", "command": "npx"},
        {"name": NAME, "description": ANY_TEXT, "defer_loading": FLAG},
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
            "keyword_index": EMPTY,
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
            "command": choice("npx", "node", "uvx", "docker", "python", "python3"),
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
            "file": Values(("agent.yaml",), "nowhere.md", NO_FILE, {"template": None}),
            "parameters": Values(("{b: 1}",), "{}", "must have at least one entry"),
            "model": MODEL,
        },
    ),
)
