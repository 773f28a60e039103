"""Tools of the agent (HoloDeck format reference §1.5)."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.base import (
    EmptyAsNone,
    Flag,
    FormatModel,
    Integer,
    MaybeText,
    NonBlank,
    Number,
    SecretText,
    UnitInterval,
    WrittenText,
)
from holodeck_action.suite.cases import FreeMapping, json_value
from holodeck_action.suite.providers import LLMProvider

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class ToolModel(FormatModel):
    """What every tool has."""

    name: Annotated[str, Field(pattern=r"^[0-9A-Za-z_]+$")]
    description: str
    defer_loading: Flag = True


class FunctionTool(ToolModel):
    """A Python function of the repository."""

    type: Literal["function"]
    file: NonBlank
    function: NonBlank
    parameters: FreeMapping | None = None
    """JSON schema per parameter; derived from the signature when absent."""
    is_retrieval: Flag = False
    """True: the results are retrieval context for RAG metrics."""


class Database(BaseModel):
    """A vector database; keys beyond these are its own settings."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    provider: Literal[
        "postgres",
        "azure-ai-search",
        "qdrant",
        "weaviate",
        "chromadb",
        "faiss",
        "azure-cosmos-mongo",
        "azure-cosmos-nosql",
        "sql-server",
        "pinecone",
        "in-memory",
    ]
    connection_string: SecretText | None = None


def _text_or_mapping(value: Any) -> str:
    return "mapping" if isinstance(value, dict | BaseModel) else "text"


def _text_or_list(value: Any) -> str:
    return "list" if isinstance(value, list) else "text"


DatabaseField = Annotated[
    Annotated[NonBlank, Tag("text")] | Annotated[Database, Tag("mapping")], Discriminator(_text_or_mapping)
]
"""A database, or the name of one in the project config."""
TextOrList = Annotated[
    Annotated[NonBlank, Tag("text")] | Annotated[list[NonBlank], Field(min_length=1), Tag("list")],
    Discriminator(_text_or_list),
]


class VectorstoreTool(ToolModel):
    """Semantic search over a source."""

    type: Literal["vectorstore"]
    source: NonBlank
    vector_field: TextOrList | None = None
    meta_fields: list[NonBlank] | None = None
    chunk_size: Annotated[Integer, Field(gt=0)] | None = None
    chunk_overlap: Annotated[Integer, Field(ge=0)] | None = None
    embedding_model: MaybeText = None
    embedding_dimensions: Annotated[Integer, Field(ge=1, le=10000)] | None = None
    database: Annotated[DatabaseField | None, EmptyAsNone()] = None
    top_k: Annotated[Integer, Field(ge=1, le=100)] = 5
    min_similarity_score: UnitInterval | None = None
    record_path: MaybeText = None
    record_prefix: str | None = None
    meta_prefix: str | None = None
    id_field: MaybeText = None
    field_separator: str = "\n"
    delimiter: str | None = None

    @model_validator(mode="after")
    def _fields_need_ids(self) -> VectorstoreTool:
        if self.vector_field is not None and self.id_field is None:
            raise PydanticCustomError("id_field", "is missing (required when vector_field is set)")
        return self


class KeywordIndex(FormatModel):
    """Where keyword search keeps its index."""

    provider: Literal["in-memory", "opensearch"] = "in-memory"
    endpoint: MaybeText = None
    index_name: MaybeText = None
    username: WrittenText | None = None
    password: SecretText | None = None
    api_key: SecretText | None = None
    verify_certs: Flag = True
    timeout_seconds: Annotated[Number, Field(gt=0.0)] = 10.0

    @model_validator(mode="after")
    def _opensearch_has_an_address(self) -> KeywordIndex:
        if self.provider == "opensearch" and (self.endpoint is None or self.index_name is None):
            raise PydanticCustomError("opensearch", "provider opensearch needs endpoint and index_name")
        return self


class HierarchicalDocumentTool(ToolModel):
    """Search over the structure of documents."""

    type: Literal["hierarchical_document"]
    source: NonBlank
    chunking_strategy: Literal["structure", "token"] = "structure"
    max_chunk_tokens: Annotated[Integer, Field(ge=100, le=2000)] = 800
    chunk_overlap: Annotated[Integer, Field(ge=0, le=200)] = 50
    document_domain: Literal["none", "us_legislative", "au_legislative", "academic", "technical", "legal_contract"] = (
        "none"
    )
    max_subsection_depth: Annotated[Integer, Field(ge=1)] | None = None
    search_mode: Literal["semantic", "keyword", "hybrid"] = "hybrid"
    top_k: Annotated[Integer, Field(ge=1, le=100)] = 10
    min_score: UnitInterval | None = None
    semantic_weight: UnitInterval = 0.5
    keyword_weight: UnitInterval = 0.3
    exact_weight: UnitInterval = 0.2
    rrf_k: Annotated[Integer, Field(ge=1)] = 60
    contextual_embeddings: Flag = True
    context_max_tokens: Annotated[Integer, Field(ge=50, le=200)] = 100
    context_concurrency: Annotated[Integer, Field(ge=1, le=50)] = 10
    context_model: LLMProvider | None = None
    extract_definitions: Flag = True
    extract_cross_references: Flag = True
    enable_reranking: Flag = False
    reranker_model: LLMProvider | None = None
    embedding_model: MaybeText = None
    database: Annotated[DatabaseField | None, EmptyAsNone()] = None
    keyword_index: KeywordIndex | None = None
    defer_loading: Flag = True

    @model_validator(mode="after")
    def _is_consistent(self) -> HierarchicalDocumentTool:
        total = self.semantic_weight + self.keyword_weight + self.exact_weight
        if self.search_mode == "hybrid" and abs(total - 1.0) > 1e-6:
            raise PydanticCustomError(
                "weights", "semantic_weight, keyword_weight and exact_weight must add up to 1 in hybrid search"
            )
        if self.search_mode == "hybrid" and self.semantic_weight + self.keyword_weight <= 0.0:
            raise PydanticCustomError("weights", "semantic_weight and keyword_weight cannot both be 0 in hybrid search")
        if self.enable_reranking and self.reranker_model is None:
            raise PydanticCustomError("reranker_model", "is missing (required when enable_reranking is true)")
        return self


class MCPTool(ToolModel):
    """A server of the Model Context Protocol."""

    type: Literal["mcp"] = "mcp"
    """Left out only in `mcp_servers`, where nothing else stands."""
    transport: Literal["stdio", "sse", "websocket", "http"] = "stdio"
    command: Literal["npx", "node", "uvx", "docker"] | None = None
    args: list[WrittenText] | None = None
    env: dict[str, WrittenText] | None = None
    env_file: MaybeText = None
    encoding: MaybeText = None
    url: NonBlank | None = None
    headers: dict[str, WrittenText] | None = None
    timeout: Annotated[Number, Field(gt=0.0)] | None = None
    sse_read_timeout: Annotated[Number, Field(gt=0.0)] | None = None
    terminate_on_close: Flag | None = None
    config: FreeMapping | None = None
    load_tools: Flag = True
    load_prompts: Flag = True
    request_timeout: Annotated[Number, Field(gt=0.0)] = 60.0
    is_retrieval: Flag = False
    """True: the results are retrieval context for RAG metrics."""
    registry_name: MaybeText = None

    @model_validator(mode="after")
    def _has_an_address(self) -> MCPTool:
        if self.transport == "stdio":
            if self.command is None:
                raise PydanticCustomError("command", "is missing (required for transport stdio)")
            return self
        if self.url is None:
            raise PydanticCustomError(
                "url", "is missing (required for transport {transport})", {"transport": self.transport}
            )
        parts = urlsplit(self.url)
        if not (parts.scheme in ("https", "wss", "ws") or (parts.scheme == "http" and parts.hostname in LOCAL_HOSTS)):
            raise PydanticCustomError("url", "must start with https, wss or ws (http only for localhost)")
        return self


class PromptTool(ToolModel):
    """A prompt of its own: the model fills in a template, and a model is asked once with it."""

    type: Literal["prompt"]
    template: NonBlank | None = None
    file: NonBlank | None = None
    parameters: Annotated[dict[str, Any], Field(min_length=1), AfterValidator(json_value)]
    model: LLMProvider | None = None

    @model_validator(mode="after")
    def _one_source(self) -> PromptTool:
        if (self.template is None) == (self.file is None):
            raise PydanticCustomError("prompt_source", "give exactly one of template and file")
        return self


TOOL_TYPES: dict[str, type[ToolModel]] = {
    "function": FunctionTool,
    "vectorstore": VectorstoreTool,
    "hierarchical_document": HierarchicalDocumentTool,
    "mcp": MCPTool,
    "prompt": PromptTool,
}

Tool = Annotated[
    FunctionTool | VectorstoreTool | HierarchicalDocumentTool | MCPTool | PromptTool, Field(discriminator="type")
]
