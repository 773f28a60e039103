"""The top level of agent.yaml (HoloDeck format reference §1.3, §1.6, §1.7)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.backends import ClaudeConfig, OpenAIConfig
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
from holodeck_action.suite.cases import CaseEntry, FreeMapping
from holodeck_action.suite.metrics import SuiteMetric
from holodeck_action.suite.patterns import pattern_problem
from holodeck_action.suite.providers import LLMProvider
from holodeck_action.suite.tools import HierarchicalDocumentTool, MCPTool, Tool, VectorstoreTool

Seconds = Annotated[Number, Field(gt=0.0)]


class ExecutionConfig(FormatModel):
    """Execution settings; None means that this file does not set it."""

    file_timeout: Seconds | None = None
    """Seconds for reading one file; 30 when set nowhere."""
    llm_timeout: Seconds | None = None
    """Seconds for one model call; 60 when set nowhere."""
    download_timeout: Seconds | None = None
    """Seconds for one download; 30 when set nowhere."""
    cache_enabled: Flag | None = None
    cache_dir: MaybeText = None
    verbose: Flag | None = None
    quiet: Flag | None = None
    parallel_test_cases: Annotated[Integer, Field(ge=1)] | None = None


class VectorstoreConfig(FormatModel):
    """A named vector database."""

    provider: NonBlank
    connection_string: SecretText | None = None
    options: dict[str, Any] | None = None


class ProjectConfig(FormatModel):
    """A config.yaml: what several suites share."""

    providers: dict[str, LLMProvider] | None = None
    """Model references; the entry of a provider fills what `model` and `evaluations.model` leave out."""
    vectorstores: dict[str, VectorstoreConfig] | None = None
    execution: ExecutionConfig | None = None
    deployment: dict[str, Any] | None = None
    mcp_servers: list[MCPTool] | None = None
    """Appended to the tools unless a tool of that name exists."""


class Instructions(FormatModel):
    """The system prompt: `inline` text or a `file` relative to agent.yaml."""

    file: NonBlank | None = None
    inline: NonBlank | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Instructions:
        if (self.file is None) == (self.inline is None):
            raise PydanticCustomError("instructions", "give exactly one of file and inline")
        return self


def _not_bare_text(value: Any) -> Any:
    if isinstance(value, str):
        raise PydanticCustomError(
            "instructions_text", "must be a mapping: write {inline: your text} or {file: path of the text}"
        )
    return value


class NumericAxis(FormatModel):
    """A setting that the optimizer may vary."""

    path: NonBlank
    type: Literal["float", "int", "categorical"]
    range: list[Any]


class TextualAxis(FormatModel):
    """A text that the optimizer may rewrite."""

    path: NonBlank
    max_chars: Annotated[Integer, Field(ge=1)] = 8000


class OptimizerAxes(FormatModel):
    """What the optimizer may vary."""

    numeric: tuple[NumericAxis, ...] = ()
    textual: tuple[TextualAxis, ...] = ()


class OptimizerPhase(FormatModel):
    """Bounds of one phase of the optimizer."""

    max_trials: Annotated[Integer, Field(ge=1)] | None = None
    patience: Annotated[Integer, Field(ge=1)] | None = None


class Optimizer(FormatModel):
    """HoloDeck's optimizer: validated, not used by this runner."""

    loss: Annotated[dict[str, Annotated[Number, Field(gt=0.0)]], Field(min_length=1)]
    axes: OptimizerAxes | None = None
    max_cycles: Annotated[Integer, Field(ge=1)] = 3
    numeric_phase: OptimizerPhase | None = None
    textual_phase: OptimizerPhase | None = None
    min_delta: Annotated[Number, Field(ge=0.0)] = 0.01
    seed: Integer = 42


class EvaluationConfig(FormatModel):
    """Metrics of every case that does not list its own, and the model that judges."""

    model: LLMProvider | None = None
    metrics: Annotated[list[SuiteMetric], Field(min_length=1)]
    optimizer: Optimizer | None = None


def _pattern(value: str) -> str:
    problem = pattern_problem(value)
    if problem is not None:
        raise PydanticCustomError("pattern", "the pattern does not compile: {reason}", {"reason": problem})
    return value


class Traces(FormatModel):
    """Tracing."""

    enabled: Flag = True
    sample_rate: UnitInterval = 1.0
    """Share of the trials whose spans are kept."""
    capture_content: Flag = False
    """Whether inputs and outputs stand in the spans."""
    capture_evaluation_content: Flag = False
    """Whether what judges read and write, and explanations, stand in the spans; with `capture_content` they do too."""
    redaction_patterns: tuple[Annotated[NonBlank, AfterValidator(_pattern)], ...] = ()
    """Regular expressions; what they match in inputs and outputs becomes `***`."""
    max_queue_size: Annotated[Integer, Field(ge=1)] | None = None
    """Spans that may wait to be sent."""
    max_export_batch_size: Annotated[Integer, Field(ge=1)] | None = None
    """Spans of one request."""
    schedule_delay_millis: Annotated[Integer, Field(ge=100)] | None = None
    """Milliseconds between two requests."""

    @model_validator(mode="after")
    def _a_batch_fits_the_queue(self) -> Traces:
        queue, batch = self.max_queue_size, self.max_export_batch_size
        if queue is not None and batch is not None and batch > queue:
            raise PydanticCustomError(
                "batch",
                "max_export_batch_size {batch} must not exceed max_queue_size {queue}",
                {"batch": batch, "queue": queue},
            )
        return self


class MetricsExport(FormatModel):
    """Export of runtime metrics."""

    enabled: Flag = True
    export_interval_ms: Annotated[Integer, Field(gt=0)] | None = None
    include_semantic_kernel_metrics: Flag | None = None


class Logs(FormatModel):
    """Export of logs."""

    enabled: Flag = True
    level: NonBlank | None = None
    include_trace_context: Flag | None = None
    filter_namespaces: list[NonBlank] | None = None


class ConsoleExporter(FormatModel):
    """Telemetry on the console."""

    enabled: Flag = True
    pretty_print: Flag | None = None
    include_timestamps: Flag | None = None


class OTLPExporter(FormatModel):
    """Telemetry to an OTLP endpoint."""

    enabled: Flag = True
    endpoint: MaybeText = None
    protocol: Literal["grpc", "http"] | None = None
    headers: dict[str, WrittenText] | None = None
    timeout_ms: Annotated[Integer, Field(gt=0)] | None = None
    compression: MaybeText = None
    insecure: Flag | None = None


class Exporters(FormatModel):
    """Where telemetry goes; `prometheus` and `azure_monitor` are accepted, not used by this runner."""

    console: ConsoleExporter | None = None
    otlp: OTLPExporter | None = None
    prometheus: FreeMapping | None = None
    azure_monitor: FreeMapping | None = None


class Observability(FormatModel):
    """Telemetry of the run."""

    enabled: Flag = False
    disable_provider_tracing: Flag | None = None
    service_name: MaybeText = None
    traces: Traces | None = None
    metrics: MetricsExport | None = None
    logs: Logs | None = None
    exporters: Exporters | None = None
    resource_attributes: dict[str, WrittenText] | None = None


def _text_or_mapping(value: Any) -> str:
    return "text" if isinstance(value, str) else "mapping"


class AgentConfig(FormatModel):
    """agent.yaml. A loaded suite keeps its cases in `Suite.cases`; `test_cases` is then None."""

    name: NonBlank
    description: NonBlank | None = None
    author: NonBlank | None = None
    model: LLMProvider
    instructions: Annotated[Instructions, BeforeValidator(_not_bare_text)]
    response_format: Annotated[
        Annotated[
            Annotated[NonBlank, Tag("text")] | Annotated[FreeMapping, Tag("mapping")], Discriminator(_text_or_mapping)
        ]
        | None,
        EmptyAsNone(),
    ] = None
    """JSON schema of the answer, or the path of a JSON file with it."""
    tools: Annotated[list[Tool], Field(max_length=50)] | None = None
    evaluations: EvaluationConfig | None = None
    test_cases: list[CaseEntry] | None = None
    test_cases_file: NonBlank | None = None
    """A YAML file with the cases, relative to agent.yaml; instead of `test_cases`."""
    execution: ExecutionConfig | None = None
    observability: Observability | None = None
    embedding_provider: LLMProvider | None = None
    claude: ClaudeConfig | None = None
    openai: OpenAIConfig | None = None
    deployment: FreeMapping | None = None

    @model_validator(mode="after")
    def _has_an_embedding_model(self) -> AgentConfig:
        if self.embedding_provider is not None and self.embedding_provider.provider == "anthropic":
            raise PydanticCustomError("embedding_provider", "cannot be anthropic: it has no embedding models")
        searches = any(isinstance(tool, VectorstoreTool | HierarchicalDocumentTool) for tool in self.tools or ())
        if self.model.provider == "anthropic" and searches and self.embedding_provider is None:
            raise PydanticCustomError(
                "embedding_provider",
                "is missing (required when the model's provider is anthropic and a tool searches documents)",
            )
        return self
