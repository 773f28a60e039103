"""What the `observability` section and OpenTelemetry's variables ask for.

The section goes before variables, variables before HoloDeck's defaults (HoloDeck 0.7.1, `ObservabilityConfig`). What
the section leaves open the SDK takes from its own variables (OpenTelemetry specification, "OTLP exporter
configuration").
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from holodeck_action.extensions.tracing.settings import ConsoleExporter, Observability, OTLPExporter, Traces
from holodeck_action.suite.hosts import is_loopback

if TYPE_CHECKING:
    from holodeck_action.extensions.tracing.otel import OtelTraces

_PATH = "/v1/traces"
_LOCAL = {"grpc": "http://localhost:4317", "http": f"http://localhost:4318{_PATH}"}
_QUEUE, _BATCH = 2048, 512
"""The SDK's own sizes, by which one that is not given follows the other."""
_BATCH_WITH_CONTENT = 32
"""Spans of one request when they hold inputs and outputs: collectors refuse more than 4 MB."""


class Otlp(Struct, frozen=True):
    """Where spans are sent: what the section says, how, and the endpoint, None for that of the SDK's variables."""

    given: OTLPExporter
    protocol: Literal["grpc", "http"]
    endpoint: str | None
    shown: str

    @property
    def address(self) -> str:
        """The endpoint for a reader: without user, password and query."""
        try:
            parts = urlsplit(self.shown)
        except ValueError:
            return "the collector"
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    @property
    def local(self) -> bool:
        """Whether it is this machine: no proxy stands between."""
        return _is_local(self.shown)


class TracePlan(Struct, frozen=True):
    """Which spans are kept, what they hold and where they go.

    Attributes:
        resource: who sends them: `service.name` and what `resource_attributes` says.
        traces: the share of trials that is kept, and what of inputs and outputs is in the spans.
        otlp: where they are sent; None for nowhere.
        console: how they are written to standard error; None for not at all.
    """

    resource: Mapping[str, str]
    traces: Traces
    otlp: Otlp | None
    console: ConsoleExporter | None

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """The spans that may wait, and those of one request; None for what the SDK's variables say."""
        queue, batch = self.traces.max_queue_size, self.traces.max_export_batch_size
        if batch is None and (self.traces.capture_content or self.traces.capture_evaluation_content):
            batch = _BATCH_WITH_CONTENT
        if queue is not None:
            return queue, min(batch or _BATCH, queue)
        return None if batch is None else max(_QUEUE, batch), batch


class AskedTraces(Struct, frozen=True):
    """What was asked for: a plan, None for no traces, and what the reader should know, one sentence each."""

    plan: TracePlan | None
    notices: tuple[str, ...] = ()


def plan_traces(block: Observability | None, name: str, environ: Mapping[str, str]) -> AskedTraces:
    """Read what was asked for, of a suite with a name; `environ` are the variables of this process."""
    if block is None or not block.enabled or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return AskedTraces(None)
    traces = block.traces or Traces()
    if not traces.enabled or traces.sample_rate == 0:
        return AskedTraces(None)
    console, otlp = _exporters(block, environ)
    if console is None and otlp is None:
        return AskedTraces(None, ("observability: no exporter is enabled that this runner has, so no traces are sent",))
    resource = {**(block.resource_attributes or {})}
    # What the attributes say holds, unless the field for it says otherwise; the SDK reads the variables.
    if block.service_name is not None:
        resource["service.name"] = block.service_name
    elif not environ.get("OTEL_SERVICE_NAME") and "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        resource.setdefault("service.name", f"holodeck-{name}")
    return AskedTraces(TracePlan(resource, traces, otlp, console))


def _exporters(block: Observability, environ: Mapping[str, str]) -> tuple[ConsoleExporter | None, Otlp | None]:
    exporters = block.exporters
    otlp = exporters.otlp if exporters else None
    console = exporters.console if exporters else None
    named = exporters is not None and any(getattr(exporters, name) is not None for name in type(exporters).model_fields)
    if otlp is None and _variable(environ, "ENDPOINT"):
        otlp = OTLPExporter()
    elif console is None and not named:
        console = ConsoleExporter()
    return (
        console if console is not None and console.enabled else None,
        _otlp(otlp, environ) if otlp is not None and otlp.enabled else None,
    )


def _otlp(given: OTLPExporter, environ: Mapping[str, str]) -> Otlp:
    outside = "" if given.endpoint else _variable(environ, "ENDPOINT")
    protocol = given.protocol
    if protocol is None:
        # The SDK leaves it to whoever chooses an exporter. HoloDeck's default is gRPC, OpenTelemetry's is HTTP.
        said = _variable(environ, "PROTOCOL")
        grpc = said == "grpc" if said else not outside or outside.rstrip("/").endswith(":4317")
        protocol = "grpc" if grpc else "http"
    if given.endpoint is None:
        return Otlp(given, protocol, None, outside or _LOCAL[protocol])
    # HoloDeck's is a base address, whose scheme may be missing.
    endpoint, insecure = given.endpoint.strip(), given.insecure
    if "://" not in endpoint:
        if insecure is None:
            said = _variable(environ, "INSECURE").lower()
            insecure = said == "true" if said else _is_local(f"//{endpoint}")
        endpoint = f"{'http' if insecure else 'https'}://{endpoint}"
    elif insecure is False and endpoint.startswith("http:"):
        endpoint = endpoint.replace("http:", "https:", 1)
    base, mark, query = endpoint.partition("?")
    if protocol == "http" and not base.rstrip("/").endswith(_PATH):
        endpoint = base.rstrip("/") + _PATH + mark + query
    return Otlp(given, protocol, endpoint, endpoint)


def _variable(environ: Mapping[str, str], name: str) -> str:
    """Return a variable of the exporter: the one for traces before the one for all signals; empty for none."""
    return (environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}", "")).strip()


def _is_local(endpoint: str) -> bool:
    try:
        return is_loopback((urlsplit(endpoint).hostname or "").lower())
    except ValueError:
        return False


FLUSH_S = 2.0
"""Longest time for which a run waits for its collectors at its end, in seconds."""


class FlushTime:
    """The seconds that all suites of a program may together wait for their collectors."""

    def __init__(self, seconds: float = FLUSH_S, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._left = seconds
        self._monotonic = monotonic

    def close(self, traces: OtelTraces) -> tuple[str, ...]:
        """Close traces in the time that is left; return what the reader should know."""
        began = self._monotonic()
        notices = traces.close(max(0.0, self._left))
        self._left -= self._monotonic() - began
        return notices
