"""Plans the traces of a suite from its `observability` section and OpenTelemetry's environment variables.

The section takes precedence over variables, and variables over HoloDeck's defaults (HoloDeck 0.7.1,
`ObservabilityConfig`). For settings that are not in the section, the SDK reads its own variables (OpenTelemetry
specification, "OTLP exporter configuration").
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from holodeck_action.extensions.tracing.settings import ConsoleExporter, Observability, OTLPExporter, Traces
from holodeck_action.suite.hosts import is_loopback

_PATH = "/v1/traces"
_LOCAL = {"grpc": "http://localhost:4317", "http": f"http://localhost:4318{_PATH}"}
_QUEUE, _BATCH = 2048, 512
"""The SDK's default sizes of queue and batch, in spans. If only one is set, the other default is adjusted."""
_BATCH_WITH_CONTENT = 32
"""Number of spans per request if spans contain inputs and outputs; collectors refuse requests above 4 MB."""


class OtlpDestination(Struct, frozen=True):
    """The collector to send spans to: the section's settings, the protocol, and the endpoint.

    The endpoint is None if the SDK reads it from its variables. `url` is the URL that is used in either case.
    """

    given: OTLPExporter
    protocol: Literal["grpc", "http"]
    endpoint: str | None
    url: str

    @property
    def address(self) -> str:
        """The endpoint's URL without user, password and query, for messages."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return "the collector"
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    @property
    def local(self) -> bool:
        """Whether the endpoint is on this machine, so no proxy is used."""
        return _is_local(self.url)


class TracePlan(Struct, frozen=True):
    """The plan of a suite's traces: the spans to record, their content, and the exporters.

    Attributes:
        resource: attributes of the OpenTelemetry resource: `service.name` and the `resource_attributes`.
        traces: settings for sampling and for recording inputs and outputs.
        otlp: the collector; None if spans are not sent to a collector.
        console: settings for writing spans to standard error; None if they are not written.
    """

    resource: Mapping[str, str]
    traces: Traces
    otlp: OtlpDestination | None
    console: ConsoleExporter | None

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """The sizes of the queue and of a batch, in spans; None if the SDK reads the size from its variable."""
        queue, batch = self.traces.max_queue_size, self.traces.max_export_batch_size
        if batch is None and (self.traces.capture_content or self.traces.capture_evaluation_content):
            batch = _BATCH_WITH_CONTENT
        if queue is not None:
            return queue, min(batch or _BATCH, queue)
        return None if batch is None else max(_QUEUE, batch), batch


class PlannedTraces(Struct, frozen=True):
    """The plan of a suite's traces (None if it sends no traces), and notices of one sentence each."""

    plan: TracePlan | None
    notices: tuple[str, ...] = ()


def plan_traces(block: Observability | None, name: str, environ: Mapping[str, str]) -> PlannedTraces:
    """Return the plan for the traces of a suite.

    Args:
        block: the suite's `observability` section.
        name: name of the suite.
        environ: environment of this process.
    """
    if block is None or not block.enabled or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return PlannedTraces(None)
    traces = block.traces or Traces()
    if not traces.enabled or traces.sample_rate == 0:
        return PlannedTraces(None)
    console, otlp = _exporters(block, environ)
    if console is None and otlp is None:
        return PlannedTraces(None, ("observability: no exporter (otlp, console) is enabled, so no traces are sent",))
    resource = {**(block.resource_attributes or {})}
    # A dedicated field takes precedence over an attribute; the SDK reads the variables.
    if block.service_name is not None:
        resource["service.name"] = block.service_name
    elif not environ.get("OTEL_SERVICE_NAME") and "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        resource.setdefault("service.name", f"holodeck-{name}")
    return PlannedTraces(TracePlan(resource, traces, otlp, console))


def _exporters(
    block: Observability, environ: Mapping[str, str]
) -> tuple[ConsoleExporter | None, OtlpDestination | None]:
    exporters = block.exporters
    otlp = exporters.otlp if exporters else None
    console = exporters.console if exporters else None
    named = exporters is not None and any(getattr(exporters, name) is not None for name in type(exporters).model_fields)
    if otlp is None and _exporter_variable(environ, "ENDPOINT"):
        otlp = OTLPExporter()
    elif console is None and not named:
        console = ConsoleExporter()
    return (
        console if console is not None and console.enabled else None,
        _plan_otlp(otlp, environ) if otlp is not None and otlp.enabled else None,
    )


def _plan_otlp(settings: OTLPExporter, environ: Mapping[str, str]) -> OtlpDestination:
    outside = "" if settings.endpoint else _exporter_variable(environ, "ENDPOINT")
    protocol = settings.protocol
    if protocol is None:
        # The SDK has no default protocol. HoloDeck's default is gRPC, OpenTelemetry's is HTTP.
        said = _exporter_variable(environ, "PROTOCOL")
        grpc = said == "grpc" if said else not outside or outside.rstrip("/").endswith(":4317")
        protocol = "grpc" if grpc else "http"
    if settings.endpoint is None:
        return OtlpDestination(settings, protocol, None, outside or _LOCAL[protocol])
    # HoloDeck's endpoint is a base address, whose scheme may be missing.
    endpoint, insecure = settings.endpoint.strip(), settings.insecure
    if "://" not in endpoint:
        if insecure is None:
            said = _exporter_variable(environ, "INSECURE").lower()
            insecure = said == "true" if said else _is_local(f"//{endpoint}")
        endpoint = f"{'http' if insecure else 'https'}://{endpoint}"
    elif insecure is False and endpoint.startswith("http:"):
        endpoint = endpoint.replace("http:", "https:", 1)
    base, mark, query = endpoint.partition("?")
    if protocol == "http" and not base.rstrip("/").endswith(_PATH):
        endpoint = base.rstrip("/") + _PATH + mark + query
    return OtlpDestination(settings, protocol, endpoint, endpoint)


def _exporter_variable(environ: Mapping[str, str], name: str) -> str:
    """Return the value of an exporter's variable, for traces or else for all signals; empty if neither is set."""
    return (environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}", "")).strip()


def _is_local(endpoint: str) -> bool:
    try:
        return is_loopback((urlsplit(endpoint).hostname or "").lower())
    except ValueError:
        return False


FLUSH_S = 2.0
"""Maximum seconds that a run waits for its collectors at its end."""


class FlushTime:
    """The time limit for sending remaining spans, which all suites of a program share."""

    def __init__(self, seconds: float = FLUSH_S, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._left = seconds
        self._monotonic = monotonic

    def spend(self, close: Callable[[float], tuple[str, ...]]) -> tuple[str, ...]:
        """Let `close` send spans within the remaining seconds, and return its notices for the user."""
        began = self._monotonic()
        notices = close(max(0.0, self._left))
        self._left -= self._monotonic() - began
        return notices
