"""The settings of `observability` in agent.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.model.base import (
    Flag,
    FormatModel,
    Integer,
    MaybeText,
    NonBlank,
    UnitInterval,
    WrittenText,
)
from holodeck_action.suite.model.cases import FreeMapping
from holodeck_action.suite.model.patterns import pattern_problem
from holodeck_action.text.secrets import header_secrets


def _pattern(value: str) -> str:
    problem = pattern_problem(value)
    if problem is not None:
        raise PydanticCustomError("pattern", "the pattern does not compile: {reason}", {"reason": problem})
    return value


class Traces(FormatModel):
    """`observability.traces`: which spans are sent, and what they contain."""

    enabled: Flag = True
    """Whether spans are sent."""
    sample_rate: UnitInterval = 1.0
    """Share of the trials whose spans are kept, as a whole."""
    capture_content: Flag = False
    """Whether spans contain inputs and outputs."""
    capture_evaluation_content: Flag = False
    """Whether spans contain explanations and the chats of judges; `capture_content` includes them."""
    redaction_patterns: tuple[Annotated[NonBlank, AfterValidator(_pattern)], ...] = ()
    r"""Regular expressions whose matches in inputs and outputs become `***`. Example: `['\d{16}']`."""
    max_queue_size: Annotated[Integer, Field(ge=1)] | None = None
    """Spans that may wait to be sent; 2,048 when absent. Example: `4096`."""
    max_export_batch_size: Annotated[Integer, Field(ge=1)] | None = None
    """Spans of one request, at most `max_queue_size`; 512 when absent, 32 with contents. Example: `128`."""
    schedule_delay_millis: Annotated[Integer, Field(ge=100)] | None = None
    """Milliseconds between two requests; OTEL_BSP_SCHEDULE_DELAY or 5,000 when absent. Example: `1000`."""

    @model_validator(mode="after")
    def _check_batch_size(self) -> Traces:
        queue, batch = self.max_queue_size, self.max_export_batch_size
        if queue is not None and batch is not None and batch > queue:
            raise PydanticCustomError(
                "batch",
                "max_export_batch_size {batch} must not exceed max_queue_size {queue}",
                {"batch": batch, "queue": queue},
            )
        return self


class MetricsExport(FormatModel):
    """`observability.metrics`. Checked, not used."""

    enabled: Flag = True
    """Whether metrics are exported."""
    export_interval_ms: Annotated[Integer, Field(gt=0)] | None = None
    """Milliseconds between two exports. Example: `60000`."""
    include_semantic_kernel_metrics: Flag | None = None
    """Whether metrics of Semantic Kernel are included."""


class Logs(FormatModel):
    """`observability.logs`. Checked, not used."""

    enabled: Flag = True
    """Whether logs are exported."""
    level: NonBlank | None = None
    """The lowest level that is exported. Example: `INFO`."""
    include_trace_context: Flag | None = None
    """Whether logs name their span."""
    filter_namespaces: list[NonBlank] | None = None
    """Loggers that are exported. Example: `[holodeck]`."""


class ConsoleExporter(FormatModel):
    """`observability.exporters.console`: spans as JSON on standard error."""

    enabled: Flag = True
    """Whether spans are printed."""
    pretty_print: Flag | None = None
    """Whether the JSON is indented, else one span per line; true when absent."""
    include_timestamps: Flag | None = None
    """Whether spans contain times; true when absent."""


class OTLPExporter(FormatModel):
    """`observability.exporters.otlp`: spans to a collector. OTEL_EXPORTER_OTLP_… variables supply absent settings."""

    enabled: Flag = True
    """Whether spans are sent."""
    endpoint: MaybeText = None
    """Base address of the collector. Example: `https://collector.example:4318`."""
    protocol: Literal["grpc", "http"] | None = None
    """`grpc`, or `http` with protobuf; `grpc` when absent."""
    headers: dict[str, WrittenText] | None = None
    """Sent with every request. Their values are secrets. Example: `{x-team: "${COLLECTOR_KEY}"}`."""
    timeout_ms: Annotated[Integer, Field(gt=0)] | None = None
    """Milliseconds that one request may take, including retries. Example: `10000`."""
    compression: MaybeText = None
    """`gzip`, `deflate` or `none`. Example: `gzip`."""
    insecure: Flag | None = None
    """Without TLS. The scheme of the endpoint decides when absent."""


class Exporters(FormatModel):
    """`observability.exporters`: where spans are sent."""

    UNUSED = ("prometheus", "azure_monitor")

    console: ConsoleExporter | None = None
    """Spans as JSON on standard error."""
    otlp: OTLPExporter | None = None
    """Spans to a collector."""
    prometheus: FreeMapping | None = None
    """Checked, not used."""
    azure_monitor: FreeMapping | None = None
    """Checked, not used."""


class Observability(FormatModel):
    """`observability`: the run as an OpenTelemetry trace."""

    UNUSED = ("metrics", "logs")

    enabled: Flag = False
    """Whether the run is traced."""
    disable_provider_tracing: Flag | None = None
    """No effect: nothing is ever sent to a provider's own tracing."""
    service_name: MaybeText = None
    """`service.name` of the trace; `holodeck-` and the suite's name when absent. Example: `shop-evaluation`."""
    traces: Traces | None = None
    """Which spans are sent, and what they contain."""
    metrics: MetricsExport | None = None
    """Checked, not used."""
    logs: Logs | None = None
    """Checked, not used."""
    exporters: Exporters | None = None
    """Where spans are sent."""
    resource_attributes: dict[str, WrittenText] | None = None
    """Attributes of the whole trace. Example: `{deployment.environment: ci}`."""


def secrets(block: Observability | None) -> frozenset[str]:
    """Return the values of the exporter's headers, which contain the API keys of most collectors."""
    otlp = block and block.exporters and block.exporters.otlp
    return header_secrets(((otlp and otlp.headers) or {}).values())
