"""Tools of the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.model.base import (
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
from holodeck_action.suite.model.cases import FreeMapping
from holodeck_action.suite.model.expected_tools import check_json
from holodeck_action.suite.model.providers import LLMProvider

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class ToolModel(FormatModel):
    """The fields that all tools have."""

    name: Annotated[str, Field(pattern=r"^[0-9A-Za-z_]+$")]
    """The name; letters, digits and underscores. Example: `find_order`."""
    description: str
    """What the tool does, for the model. Example: `Finds an order by its number.`."""
    defer_loading: Flag = True
    """Checked, not used."""


class FunctionTool(ToolModel):
    """`type: function`: a Python function of the repository."""

    type: Literal["function"]
    file: NonBlank
    """The Python file, relative to agent.yaml. Example: `tools.py`."""
    function: NonBlank
    """The function in the file. Example: `find_order`."""
    parameters: FreeMapping | None = None
    """JSON schema per parameter; derived from the signature when absent. Example: `{order: {type: string}}`."""
    is_retrieval: Flag = False
    """Whether the results are retrieval context for RAG metrics."""


class Database(FormatModel):
    """A vector database. Further keys are allowed. A notice says that it is not used."""

    model_config = ConfigDict(extra="allow")

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
    """The kind of database. Example: `qdrant`."""
    connection_string: SecretText | None = None
    """Address of the database, with credentials. Checked, not used. Example: `${QDRANT_URL}`."""


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
    """`type: vectorstore`: semantic search over texts or records."""

    type: Literal["vectorstore"]
    source: NonBlank
    """A file or a folder, relative to agent.yaml. Example: `data/faq.json`."""
    vector_field: TextOrList | None = None
    """Fields of a record whose texts are embedded. Example: `[question, answer]`."""
    meta_fields: list[NonBlank] | None = None
    """Fields that are shown after the text; all others when absent. Example: `[category]`."""
    chunk_size: Annotated[Integer, Field(gt=0)] | None = None
    """Longest chunk in tokens; 512 when absent. Example: `256`."""
    chunk_overlap: Annotated[Integer, Field(ge=0)] | None = None
    """Tokens that neighbouring chunks share; 50 when absent. Example: `20`."""
    embedding_model: MaybeText = None
    """The embedding model; all searching tools of a suite share it. Example: `text-embedding-3-large`."""
    embedding_dimensions: Annotated[Integer, Field(ge=1, le=10000)] | None = None
    """Length of the vectors; the model's own when absent. Example: `256`."""
    database: Annotated[DatabaseField | None, EmptyAsNone()] = None
    """A database, or its name in config.yaml. A notice says that it is not used. Example: `docs`."""
    top_k: Annotated[Integer, Field(ge=1, le=100)] = 5
    """Number of hits."""
    min_similarity_score: UnitInterval | None = None
    """Lowest cosine of a hit. Example: `0.5`."""
    record_path: MaybeText = None
    """Path to the list of records inside a JSON document. Example: `shops.items`."""
    record_prefix: str | None = None
    """Prefix of the displayed names of a record's own fields. Example: `item_`."""
    meta_prefix: str | None = None
    """Prefix of the displayed names of fields that are outside the record. Example: `shop_`."""
    id_field: MaybeText = None
    """The field with the id of a record. Required with `vector_field`. Example: `id`."""
    field_separator: str = "\n"
    """Joins the texts of several fields. Example: `" | "`."""
    delimiter: str | None = None
    """Separates the cells of CSV; detected when absent. Example: `;`."""

    @model_validator(mode="after")
    def _check_id_field(self) -> VectorstoreTool:
        if self.vector_field is not None and self.id_field is None:
            raise PydanticCustomError("id_field", "is missing (required when vector_field is set)")
        return self


class KeywordIndex(FormatModel):
    """`keyword_index` of a hierarchical document tool. Checked, not used."""

    provider: Literal["in-memory", "opensearch"] = "in-memory"
    """The kind of index."""
    endpoint: MaybeText = None
    """Address of the index. Example: `https://search.example`."""
    index_name: MaybeText = None
    """Name of the index. Example: `rules`."""
    username: WrittenText | None = None
    """The user. Example: `reader`."""
    password: SecretText | None = None
    """The password. Example: `${SEARCH_PASSWORD}`."""
    api_key: SecretText | None = None
    """The key. Example: `${SEARCH_KEY}`."""
    verify_certs: Flag = True
    """Whether certificates are verified."""
    timeout_seconds: Annotated[Number, Field(gt=0.0)] = 10.0
    """Seconds that a request may take."""

    @model_validator(mode="after")
    def _check_opensearch(self) -> KeywordIndex:
        if self.provider == "opensearch" and (self.endpoint is None or self.index_name is None):
            raise PydanticCustomError("opensearch", "provider opensearch needs endpoint and index_name")
        return self


class HierarchicalDocumentTool(ToolModel):
    """`type: hierarchical_document`: search over the structure of documents."""

    type: Literal["hierarchical_document"]
    source: NonBlank
    """A file or a folder, relative to agent.yaml. Example: `rules/`."""
    chunking_strategy: Literal["structure", "token"] = "structure"
    """Chunks by section, or of equal size."""
    max_chunk_tokens: Annotated[Integer, Field(ge=100, le=2000)] = 800
    """Longest chunk in tokens, including its headings."""
    chunk_overlap: Annotated[Integer, Field(ge=0, le=200)] = 50
    """Tokens that neighbouring chunks of a section share; at most half of the size."""
    document_domain: Literal["none", "us_legislative", "au_legislative", "academic", "technical", "legal_contract"] = (
        "none"
    )
    """Which numbering counts as headings, besides Markdown's. Example: `legal_contract`."""
    max_subsection_depth: Annotated[Integer, Field(ge=1)] | None = None
    """Headings deeper than this are text of their section. Example: `3`."""
    search_mode: Literal["semantic", "keyword", "hybrid"] = "hybrid"
    """By meaning, by words, or both."""
    top_k: Annotated[Integer, Field(ge=1, le=100)] = 10
    """Number of hits."""
    min_score: UnitInterval | None = None
    """Lowest score of a hit. Example: `0.2`."""
    semantic_weight: UnitInterval = 0.5
    """Weight of the semantic ranking in hybrid search."""
    keyword_weight: UnitInterval = 0.3
    """Weight of the keyword ranking in hybrid search."""
    exact_weight: UnitInterval = 0.2
    """Weight of the exact ranking in hybrid search. The three weights add up to 1."""
    rrf_k: Annotated[Integer, Field(ge=1)] = 60
    """The constant of reciprocal rank fusion."""
    contextual_embeddings: Flag = True
    """Whether a model writes a sentence of context for each chunk before the first case."""
    context_max_tokens: Annotated[Integer, Field(ge=50, le=200)] = 100
    """Longest context in tokens."""
    context_concurrency: Annotated[Integer, Field(ge=1, le=50)] = 10
    """Contexts that are written at the same time."""
    context_model: LLMProvider | None = None
    """The model that writes contexts; the suite's own when absent. Example: `{provider: openai, name: gpt-6-luna}`."""
    extract_definitions: Flag = True
    """Whether definitions of words that a hit uses are added to it."""
    extract_cross_references: Flag = True
    """Whether headings of sections that a hit refers to are added to it."""
    enable_reranking: Flag = False
    """Whether a model scores the best hits again."""
    reranker_model: LLMProvider | None = None
    """The model that reranks. Required with `enable_reranking`. Example: `{provider: openai, name: gpt-6-luna}`."""
    embedding_model: MaybeText = None
    """The embedding model; all searching tools of a suite share it. Example: `text-embedding-3-large`."""
    database: Annotated[DatabaseField | None, EmptyAsNone()] = None
    """A database, or its name in config.yaml. A notice says that it is not used. Example: `docs`."""
    keyword_index: KeywordIndex | None = None
    """A keyword index. A notice says that it is not used."""
    defer_loading: Flag = True
    """Checked, not used."""

    @model_validator(mode="after")
    def _check_search(self) -> HierarchicalDocumentTool:
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
    """`type: mcp`: a server of the Model Context Protocol. Also `mcp_servers` of config.yaml."""

    type: Literal["mcp"] = "mcp"
    """The kind of tool. May be omitted in `mcp_servers` only. Example: `mcp`."""
    transport: Literal["stdio", "sse", "websocket", "http"] = "stdio"
    """How the server is reached. `websocket` is refused. Example: `http`."""
    command: Literal["npx", "node", "uvx", "docker", "python", "python3"] | None = None
    """The program of a server with transport `stdio`. `python` runs a script of the repository. Example: `npx`."""
    args: list[WrittenText] | None = None
    """Arguments of the program. Those that start with `./` or `../` are paths from agent.yaml. Example: `["-y",
    "@shop/orders-mcp@2.1.0"]`."""
    env: dict[str, WrittenText] | None = None
    """Environment variables of the server's process. Their values are secrets.
    Example: `{ORDERS_TOKEN: "${ORDERS_TOKEN}"}`."""
    env_file: MaybeText = None
    """A file with environment variables of the server's process. Example: `orders.env`."""
    encoding: MaybeText = None
    """Text encoding of the server's messages; UTF-8 when absent. Example: `utf-8`."""
    url: NonBlank | None = None
    """The address of a server with transport `http` or `sse`. Example: `https://tools.example/mcp`."""
    headers: dict[str, WrittenText] | None = None
    """Sent with every request. Values with secret names are secrets. Example: `{Authorization: "Bearer
    ${TOOLS_TOKEN}"}`."""
    timeout: Annotated[Number, Field(gt=0.0)] | None = None
    """Seconds in which a connection must be made; 30 when absent. Example: `10`."""
    sse_read_timeout: Annotated[Number, Field(gt=0.0)] | None = None
    """Most seconds without data on an open stream; 300 when absent. Example: `60`."""
    terminate_on_close: Flag | None = None
    """Whether the session is ended at the end of the run; true when absent."""
    config: FreeMapping | None = None
    """Passed to a process as JSON in `MCP_CONFIG`. `allowed_tools` limits the tools. Example: `{allowed_tools:
    [find_order]}`."""
    load_tools: Flag = True
    """Whether the model gets the tools of the server. Without them it is not started."""
    load_prompts: Flag = True
    """No effect: a model gets only tools. A notice says so."""
    request_timeout: Annotated[Number, Field(gt=0.0)] = 60.0
    """Seconds that one call may take."""
    is_retrieval: Flag = False
    """Whether the results are retrieval context for RAG metrics."""
    registry_name: MaybeText = None
    """Checked, not used. Example: `orders`."""

    @model_validator(mode="after")
    def _check_address(self) -> MCPTool:
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
    """`type: prompt`: a prompt template; the agent gives the arguments, and a model answers the prompt."""

    type: Literal["prompt"]
    template: NonBlank | None = None
    """The Jinja template. Example: `"Summarise in {{ words }} words: {{ text }}"`."""
    file: NonBlank | None = None
    """A file with the template, relative to agent.yaml. Example: `prompts/summary.txt`."""
    parameters: Annotated[dict[str, Any], Field(min_length=1), AfterValidator(check_json)]
    """JSON schema per parameter. Example: `{text: {type: string}, words: {type: integer}}`."""
    model: LLMProvider | None = None
    """The model that answers; the suite's own when absent. Example: `{provider: openai, name: gpt-6-luna}`."""

    @model_validator(mode="after")
    def _check_source(self) -> PromptTool:
        if (self.template is None) == (self.file is None):
            raise PydanticCustomError("prompt_source", "give exactly one of template and file")
        return self


Tool = Annotated[
    FunctionTool | VectorstoreTool | HierarchicalDocumentTool | MCPTool | PromptTool, Field(discriminator="type")
]
Tools = Annotated[list[Tool], Field(max_length=50)]
MCPTools = list[MCPTool]


def described_tools(tools: Sequence[ToolModel] | None) -> tuple[dict[str, Any], ...] | None:
    """Return `{name, description, parameters}` of the tools that an agent may call. `parameters` is the JSON Schema of
    the arguments; it is missing if it is derived from code. None if the tools are unknown: the suite lists none, or a
    server of the Model Context Protocol names them.
    """
    if not tools or any(isinstance(tool, MCPTool) for tool in tools):
        return None
    described = []
    for tool in tools:
        found = getattr(tool, "parameters", {"query": {"type": "string"}})
        schema = {} if found is None else {"parameters": {"type": "object", "properties": dict(found)}}
        described.append({"name": tool.name, "description": tool.description, **schema})
    return tuple(described)
