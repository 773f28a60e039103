"""The top level of agent.yaml."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.seam.registry import section_type
from holodeck_action.suite.model.base import (
    EmptyAsNone,
    ExtensionType,
    Flag,
    FormatModel,
    Integer,
    LazySection,
    LazyType,
    MaybeText,
    NonBlank,
    Number,
    SecretText,
    text_or_mapping,
)
from holodeck_action.suite.model.cases import CaseEntry, FreeMapping
from holodeck_action.suite.model.metric_types import SuiteMetric
from holodeck_action.suite.model.providers import LLMProvider

if TYPE_CHECKING:
    from holodeck_action.suite.model.backends import ClaudeConfig, OpenAIConfig
    from holodeck_action.suite.model.optimizer import Optimizer
    from holodeck_action.suite.model.tools import MCPTools, Tools

    Observability = Any
else:
    # Most suites have none of these sections.
    ClaudeConfig = LazyType("holodeck_action.suite.model.backends", "ClaudeConfig")
    OpenAIConfig = LazyType("holodeck_action.suite.model.backends", "OpenAIConfig")
    MCPTools = LazyType("holodeck_action.suite.model.tools", "MCPTools")
    Optimizer = LazyType("holodeck_action.suite.model.optimizer", "Optimizer")
    Tools = LazyType("holodeck_action.suite.model.tools", "Tools")
    Observability = ExtensionType(partial(section_type, "observability"), FreeMapping)

READ_BY = {"observability": "tracing"}
"""Sections of agent.yaml, each with the extension that reads it. A notice names each section whose extension is not
installed."""
Seconds = Annotated[Number, Field(gt=0.0)]


DOWNLOADS_FOLDER = ".holodeck/cache"
"""Default folder of downloaded files, relative to agent.yaml."""


class ExecutionConfig(FormatModel):
    """`execution`, in agent.yaml and config.yaml."""

    file_timeout: Seconds | None = None
    """Seconds that the conversion of one file may take; 30 when absent. Example: `60`."""
    llm_timeout: Seconds | None = None
    """Seconds that the agent may take for a turn; 60 when absent. Example: `120`."""
    download_timeout: Seconds | None = None
    """Seconds that the download of one file may take, including retries; 30 when absent. Example: `60`."""
    cache_enabled: Flag | None = None
    """Whether downloaded files are kept for later runs; true when absent."""
    cache_dir: MaybeText = None
    """Folder of downloaded files, relative to agent.yaml; `.holodeck/cache` when absent. Example: `.cache/files`."""
    verbose: Flag | None = None
    """Checked, not used."""
    quiet: Flag | None = None
    """Checked, not used."""
    parallel_test_cases: Annotated[Integer, Field(ge=1)] | None = None
    """Number of conversations at the same time; 10 when absent. Example: `4`."""


class VectorstoreConfig(FormatModel):
    """A vector database in config.yaml. Checked, not used."""

    provider: NonBlank
    """The kind of database. Example: `qdrant`."""
    connection_string: SecretText | None = None
    """Address of the database, with credentials. Example: `${QDRANT_URL}`."""
    options: dict[str, Any] | None = None
    """Further settings. Example: `{}`."""


class ProjectConfig(FormatModel):
    """config.yaml of the project, and of the user."""

    providers: LazySection[dict[str, LLMProvider]] | None = None
    """Settings of models by name. They complete `model` and `evaluations.model`. Example: `{openai: {provider: openai,
    name: gpt-6.1-sol}}`."""
    vectorstores: dict[str, VectorstoreConfig] | None = None
    """Databases by name. A notice says that they are not used. Example: `{docs: {provider: qdrant}}`."""
    execution: LazySection[ExecutionConfig] | None = None
    """As in agent.yaml, with lower precedence."""
    deployment: dict[str, Any] | None = None
    """Checked, not used. Example: `{}`."""
    mcp_servers: LazySection[MCPTools] | None = None
    """Tools that are appended to those of the suite."""


class Instructions(FormatModel):
    """`instructions`: the system prompt of the suite's own model. Exactly one key."""

    file: NonBlank | None = None
    """A text file, relative to agent.yaml. Example: `instructions.md`."""
    inline: NonBlank | None = None
    """The text itself. Example: `Answer questions about our shop.`."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.file is None) == (self.inline is None):
            raise PydanticCustomError("instructions", "give exactly one of file and inline")
        return self


def _refuse_bare_text(value: Any) -> Any:
    if isinstance(value, str):
        raise PydanticCustomError(
            "instructions_text", "must be a mapping: write {inline: your text} or {file: path of the text}"
        )
    return value


class EvaluationConfig(FormatModel):
    """`evaluations`: the metrics of every case without its own list, and the judge."""

    model: LLMProvider | None = None
    """The judge of metrics without their own `model`; the agent's `model` when absent."""
    metrics: Annotated[list[SuiteMetric], Field(min_length=1)]
    """Metrics of every case without its own list."""
    optimizer: LazySection[Optimizer] | None = None
    """The settings that `optimize` may change."""


class AgentConfig(FormatModel):
    """The top level of agent.yaml."""

    name: NonBlank
    """The name of the suite in reports. Example: `support`."""
    description: NonBlank | None = None
    """A note for people. Checked, not used. Example: `Answers customers of a shop.`."""
    author: NonBlank | None = None
    """A note for people. Checked, not used. Example: `Team Support`."""
    model: LLMProvider
    """The suite's own model. It answers the cases when there is no target."""
    instructions: Annotated[Instructions, BeforeValidator(_refuse_bare_text)]
    """The system prompt of the suite's own model."""
    response_format: Annotated[
        Annotated[
            Annotated[NonBlank, Tag("text")] | Annotated[FreeMapping, Tag("mapping")], Discriminator(text_or_mapping)
        ]
        | None,
        EmptyAsNone(),
    ] = None
    """JSON schema of the answer, or the path of a JSON file with it. Example: `{type: object, properties: {city:
    {type: string}}}`."""
    tools: LazySection[Tools] | None = None
    """Tools that the suite's own model may call, at most 50, with different names."""
    evaluations: EvaluationConfig | None = None
    """The metrics, and the judge."""
    test_cases: LazySection[list[CaseEntry]] | None = None
    """The cases."""
    test_cases_file: NonBlank | None = None
    """The file of the cases, relative to agent.yaml, instead of `test_cases`: `.yaml`, `.json`, `.csv`, `.tsv`,
    `.xlsx`, `.jsonl`, `.ndjson`, `.parquet`, a pattern such as `cases/*.csv`, or `python:MODULE:FUNCTION`. Example:
    `cases.yaml`."""
    execution: LazySection[ExecutionConfig] | None = None
    """Time limits, concurrency and downloads."""
    observability: LazySection[Observability] | None = None
    """The run as an OpenTelemetry trace."""
    embedding_provider: LazySection[LLMProvider] | None = None
    """The embedding model of tools that search documents, and the provider of the embedding models of `similar`; not
    `anthropic`."""
    claude: LazySection[ClaudeConfig] | None = None
    """Settings for models of `anthropic` and `ollama`."""
    openai: LazySection[OpenAIConfig] | None = None
    """Settings for models of `openai` and `azure_openai`."""
    deployment: FreeMapping | None = None
    """Checked, not used. Example: `{}`."""

    @model_validator(mode="after")
    def _check_embedding_model(self) -> Self:
        if self.embedding_provider is not None and self.embedding_provider.provider == "anthropic":
            raise PydanticCustomError("embedding_provider", "cannot be anthropic: it has no embedding models")
        searches = any(tool.type in ("vectorstore", "hierarchical_document") for tool in self.tools or ())
        if self.model.provider == "anthropic" and searches and self.embedding_provider is None:
            raise PydanticCustomError(
                "embedding_provider",
                "is missing (required when the model's provider is anthropic and a tool searches documents)",
            )
        return self
