"""Traces of one suite's run: what its `observability` block and the `OTEL_…` variables ask for, opened and closed.

Fields go before variables, variables before HoloDeck's defaults (HoloDeck 0.7.1, `ObservabilityConfig`). What cannot be
done is one sentence: no suite fails because of its traces.
Source of the variables: OpenTelemetry specification, "OTLP exporter configuration".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from holodeck_action.extensions.tracing.settings import ConsoleExporter, Observability, OTLPExporter, Traces
from holodeck_action.suite.hosts import is_loopback

if TYPE_CHECKING:
    from holodeck_action.extensions.tracing.otel import OtelTraces

OtlpProtocol = Literal["grpc", "http"]
Compression = Literal["none", "gzip", "deflate"]

_BLOCK = "observability"
_OTLP = f"{_BLOCK}.exporters.otlp"
_PATH = "/v1/traces"
_LOCAL = {"grpc": "http://localhost:4317", "http": "http://localhost:4318"}
_PROTOCOLS: dict[str, OtlpProtocol] = {"grpc": "grpc", "http/protobuf": "http", "http": "http"}
_COMPRESSIONS: dict[str, Compression] = {"none": "none", "gzip": "gzip", "deflate": "deflate"}
_QUEUE = 2048
_BATCH = 512
_BATCH_WITH_CONTENT = 32
"""Spans of one request when they hold inputs and outputs: collectors refuse more than 4 MB."""


@dataclass(frozen=True, slots=True)
class Otlp:
    """Where spans are sent.

    Attributes:
        protocol: how.
        endpoint: for `http` the whole URL; for `grpc` a URL that says by its scheme whether there is TLS.
        headers: names in lower case, and values, which are secrets; None for those of the environment, which the SDK
            reads.
        timeout_s: seconds one request may take; None for the SDK's own.
        compression: None for the SDK's own.
        local: the endpoint is this machine: no proxy stands between.
    """

    protocol: OtlpProtocol
    endpoint: str = field(repr=False)
    headers: Mapping[str, str] | None = field(repr=False)
    timeout_s: float | None
    compression: Compression | None
    local: bool

    @property
    def address(self) -> str:
        """The endpoint for a reader: without user, password and query."""
        parts = urlsplit(self.endpoint)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


class TracePlan(Struct, frozen=True):
    """Which spans are kept, what they hold and where they go.

    Attributes:
        resource: who sends them: `service.name` and what `resource_attributes` says.
        traces: the share of trials that is kept, and what of inputs and outputs is in the spans.
        queue: spans that may wait to be sent; the oldest go when it is full.
        batch: spans of one request.
        otlp: where they are sent; None for nowhere.
        console: how they are written to standard error; None for not at all.
    """

    resource: Mapping[str, str]
    traces: Traces
    queue: int
    batch: int
    otlp: Otlp | None
    console: ConsoleExporter | None


class AskedTraces(Struct, frozen=True):
    """What was asked for: a plan, None for no traces, and what the reader should know, one sentence each."""

    plan: TracePlan | None
    notices: tuple[str, ...] = ()


def plan_traces(block: Observability | None, name: str, environ: Mapping[str, str]) -> AskedTraces:
    """Read what was asked for."""
    if block is None or not block.enabled or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return AskedTraces(None)
    traces = block.traces or Traces()
    if not traces.enabled or traces.sample_rate == 0:
        return AskedTraces(None)
    notices: list[str] = []
    console, otlp = _exporters(block, environ, notices)
    if console is None and otlp is None:
        missing = f"{_BLOCK}: no exporter is enabled that this runner has, so no traces are sent"
        return AskedTraces(None, (*notices, missing))
    resource = {**(block.resource_attributes or {})}
    # What the attributes say holds, unless the field for it says otherwise; the SDK reads the variables.
    if block.service_name is not None:
        resource["service.name"] = block.service_name
    elif not environ.get("OTEL_SERVICE_NAME") and "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        resource.setdefault("service.name", f"holodeck-{name}")
    return AskedTraces(TracePlan(resource, traces, *_sizes(traces), otlp, console), tuple(notices))


def _exporters(
    block: Observability, environ: Mapping[str, str], notices: list[str]
) -> tuple[ConsoleExporter | None, Otlp | None]:
    exporters = block.exporters
    otlp = exporters.otlp if exporters else None
    console = exporters.console if exporters else None
    elsewhere = bool(_variable(environ, "ENDPOINT"))
    named = exporters is not None and any(getattr(exporters, name) is not None for name in type(exporters).model_fields)
    if otlp is None and elsewhere:
        otlp = OTLPExporter()
    elif console is None and not named:
        console = ConsoleExporter()
    return (
        console if console is not None and console.enabled else None,
        _otlp(otlp, environ, notices) if otlp is not None and otlp.enabled else None,
    )


def _otlp(given: OTLPExporter, environ: Mapping[str, str], notices: list[str]) -> Otlp | None:
    protocol = given.protocol or _protocol(given, environ, notices)
    endpoint = given.endpoint or _variable(environ, "ENDPOINT") or _LOCAL[protocol]
    whole = given.endpoint is None and bool(environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
    insecure = given.insecure
    if insecure is None and (said := _variable(environ, "INSECURE")) is not None:
        insecure = said.strip().lower() == "true"
    parts = urlsplit(endpoint.strip() if "://" in endpoint else f"//{endpoint.strip()}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("", "http", "https") or port == 0:
        notices.append(f"{_OTLP}.endpoint: is no address such as {_LOCAL[protocol]}; no traces are sent to it")
        return None
    local = is_loopback(host.lower())
    if insecure is None:
        insecure = parts.scheme == "http" or (not parts.scheme and local)
    scheme = "http" if insecure and parts.scheme != "https" else "https"
    netloc, path = parts.netloc, parts.path.rstrip("/")
    if protocol == "grpc":
        netloc, path = netloc.rpartition("@")[2], ""
    elif not whole and not path.endswith(_PATH):
        path += _PATH
    return Otlp(
        protocol=protocol,
        endpoint=urlunsplit((scheme, netloc, path, parts.query, "")),
        headers=given.headers and {name.strip().lower(): value.strip() for name, value in given.headers.items()},
        timeout_s=None if given.timeout_ms is None else given.timeout_ms / 1000,
        compression=_compression(given.compression, notices),
        local=local,
    )


def _variable(environ: Mapping[str, str], name: str) -> str | None:
    """Return a variable of the exporter: the one for traces before the one for all signals; None when empty."""
    return environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}") or None


def _protocol(given: OTLPExporter, environ: Mapping[str, str], notices: list[str]) -> OtlpProtocol:
    """Return what the environment says; else HoloDeck's default for an endpoint of the file, OpenTelemetry's for one of
    the environment, unless its port is that of gRPC."""
    said = (_variable(environ, "PROTOCOL") or "").strip().lower()
    if not said:
        elsewhere = None if given.endpoint else _variable(environ, "ENDPOINT")
        return "grpc" if elsewhere is None or elsewhere.strip("/ ").endswith(":4317") else "http"
    if said not in _PROTOCOLS:
        notices.append(
            f"{_OTLP}.protocol: the environment asks for {said[:20]!r}, which this runner does not speak; "
            "http/protobuf is used"
        )
    return _PROTOCOLS.get(said, "http")


def _compression(given: str | None, notices: list[str]) -> Compression | None:
    if given is None:
        return None
    found = _COMPRESSIONS.get(given.strip().lower())
    if found is None:
        notices.append(f"{_OTLP}.compression: is none of {', '.join(_COMPRESSIONS)}; traces are sent uncompressed")
    return found or "none"


def _sizes(traces: Traces) -> tuple[int, int]:
    """Return the sizes of queue and batch; one that is not given follows the other."""
    batch = traces.max_export_batch_size
    queue = traces.max_queue_size or max(_QUEUE, batch or 0)
    content = traces.capture_content or traces.capture_evaluation_content
    return queue, batch or min(_BATCH_WITH_CONTENT if content else _BATCH, queue)


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
