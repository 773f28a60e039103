"""What the `observability` block and the `OTEL_…` variables ask for, as one value; nothing is imported or opened.

Fields go before variables, variables before HoloDeck's defaults (HoloDeck 0.7.1, `ObservabilityConfig`). What cannot be
done is one sentence: no suite fails because of its traces.
Source of the variables: OpenTelemetry specification, "OTLP exporter configuration".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from holodeck_action.suite.agent import ConsoleExporter, Observability, OTLPExporter, Traces
from holodeck_action.suite.hosts import is_loopback

Protocol = Literal["grpc", "http"]
Compression = Literal["none", "gzip", "deflate"]

_BLOCK = "observability"
_OTLP = f"{_BLOCK}.exporters.otlp"
_PATH = "/v1/traces"
_LOCAL = {"grpc": "http://localhost:4317", "http": "http://localhost:4318"}
_PROTOCOLS: dict[str, Protocol] = {"grpc": "grpc", "http/protobuf": "http", "http": "http"}
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
        headers: names in lower case, and values, which are secrets.
        timeout_s: seconds one request may take; None for the SDK's own.
        compression: None for the SDK's own.
        local: the endpoint is this machine: no proxy stands between.
    """

    protocol: Protocol
    endpoint: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float | None
    compression: Compression | None
    local: bool

    @property
    def shown(self) -> str:
        """The endpoint for a reader: without user, password and query."""
        parts = urlsplit(self.endpoint)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


@dataclass(frozen=True, slots=True)
class Console:
    """Spans as JSON on standard error: indented or one a line, with or without their times."""

    pretty: bool
    timestamps: bool


@dataclass(frozen=True, slots=True)
class TracePlan:
    """Which spans are kept, what they hold and where they go.

    Attributes:
        resource: who sends them: `service.name` and what `resource_attributes` says.
        rate: share of trials that are kept, above 0.
        content: whether inputs and outputs are in them.
        graded: whether those of evaluations, and of what is below these, are in them.
        patterns: what is taken out of inputs and outputs beside secrets, as regular expressions.
        queue: spans that may wait to be sent; the oldest go when it is full.
        batch: spans of one request.
        delay_ms: milliseconds between two requests; None for the SDK's own.
    """

    resource: Mapping[str, str]
    rate: float
    content: bool
    graded: bool
    patterns: tuple[str, ...]
    queue: int
    batch: int
    delay_ms: int | None
    otlp: Otlp | None
    console: Console | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: a plan, None for no traces, and what the reader should know, one sentence each."""

    plan: TracePlan | None
    notices: tuple[str, ...] = ()


def plan_traces(block: Observability | None, name: str, environ: Mapping[str, str]) -> Asked:
    """Read what was asked for.

    Args:
        block: `observability` of the suite.
        name: the suite's name.
        environ: the job's environment.
    """
    if block is None or not block.enabled or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return Asked(None)
    traces = block.traces or Traces()
    if not traces.enabled or traces.sample_rate == 0:
        return Asked(None)
    notices: list[str] = []
    console, otlp = _exporters(block, environ, notices)
    if console is None and otlp is None:
        return Asked(
            None,
            (
                *notices,
                f"{_BLOCK}: no exporter is enabled that this runner has, so no traces are sent",
            ),
        )
    queue, batch = _sizes(traces)
    resource = {**(block.resource_attributes or {})}
    # What the attributes say holds, unless the field for it says otherwise; the SDK reads the variables.
    if block.service_name is not None:
        resource["service.name"] = block.service_name
    elif not environ.get("OTEL_SERVICE_NAME") and "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        resource.setdefault("service.name", f"holodeck-{name}")
    plan = TracePlan(
        resource=resource,
        rate=traces.sample_rate,
        content=traces.capture_content,
        graded=traces.capture_content or traces.capture_evaluation_content,
        patterns=traces.redaction_patterns,
        queue=queue,
        batch=batch,
        delay_ms=traces.schedule_delay_millis,
        otlp=otlp,
        console=console,
    )
    return Asked(plan, tuple(notices))


def header_secrets(block: Observability | None, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of the headers that are sent to collectors: the keys of most of them are there."""
    found = block.exporters.otlp.headers if block and block.exporters and block.exporters.otlp else None
    values = set((found or {}).values())
    for variable, text in environ.items():
        if variable.startswith("OTEL_EXPORTER_OTLP_") and variable.endswith("_HEADERS"):
            values |= {value for pair in text.split(",") if (value := pair.partition("=")[2].strip())}
    values |= {unquote(value) for value in values}
    # "Bearer …": the part behind the word is the secret.
    return frozenset(values | {word for value in values for word in value.split() if len(word) >= 8})


def _exporters(
    block: Observability, environ: Mapping[str, str], notices: list[str]
) -> tuple[Console | None, Otlp | None]:
    exporters = block.exporters
    otlp = exporters.otlp if exporters else None
    console = exporters.console if exporters else None
    elsewhere = bool(_of(environ, "ENDPOINT"))
    named = exporters is not None and any(getattr(exporters, name) is not None for name in type(exporters).model_fields)
    if otlp is None and elsewhere:
        otlp = OTLPExporter()
    elif console is None and not named:
        console = ConsoleExporter()
    shown = None
    if console is not None and console.enabled:
        shown = Console(console.pretty_print is not False, console.include_timestamps is not False)
    return shown, _otlp(otlp, environ, notices) if otlp is not None and otlp.enabled else None


def _otlp(given: OTLPExporter, environ: Mapping[str, str], notices: list[str]) -> Otlp | None:
    protocol = given.protocol or _protocol(given, environ, notices)
    endpoint = given.endpoint or _of(environ, "ENDPOINT") or _LOCAL[protocol]
    whole = given.endpoint is None and bool(environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
    insecure = given.insecure
    if insecure is None and (said := _of(environ, "INSECURE")) is not None:
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
        headers=_headers(given, environ),
        timeout_s=None if given.timeout_ms is None else given.timeout_ms / 1000,
        compression=_compression(given.compression, notices),
        local=local,
    )


def _of(environ: Mapping[str, str], name: str) -> str | None:
    """Return a variable of the exporter: the one for traces before the one for all signals; None when empty."""
    return environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}") or None


def _protocol(given: OTLPExporter, environ: Mapping[str, str], notices: list[str]) -> Protocol:
    """Return what the environment says; else HoloDeck's default for an endpoint of the file, OpenTelemetry's for one of
    the environment, unless its port is that of gRPC."""
    said = (_of(environ, "PROTOCOL") or "").strip().lower()
    if not said:
        elsewhere = None if given.endpoint else _of(environ, "ENDPOINT")
        return "grpc" if elsewhere is None or elsewhere.strip("/ ").endswith(":4317") else "http"
    if said not in _PROTOCOLS:
        notices.append(
            f"{_OTLP}.protocol: the environment asks for {said[:20]!r}, which this runner does not speak; "
            "http/protobuf is used"
        )
    return _PROTOCOLS.get(said, "http")


def _headers(given: OTLPExporter, environ: Mapping[str, str]) -> dict[str, str]:
    if given.headers is not None:
        return {name.strip().lower(): value.strip() for name, value in given.headers.items()}
    pairs = [pair.partition("=") for pair in (_of(environ, "HEADERS") or "").split(",")]
    return {unquote(name).strip().lower(): unquote(value).strip() for name, sign, value in pairs if sign and name}


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
