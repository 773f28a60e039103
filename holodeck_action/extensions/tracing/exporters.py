"""Exporters of spans: OTLP over HTTP or gRPC, and standard error. Needs the packages of the `otel` extra."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import requests
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from holodeck_action.extensions.tracing.settings import ConsoleExporter
from holodeck_action.extensions.tracing.traces import OtlpDestination
from holodeck_action.text.json_values import parse_json


class SendingMonitor:
    """Tracks the sending of spans: how many arrived, why others were lost, and whether to give up."""

    def __init__(self) -> None:
        self.arrived = 0
        """Number of spans that the collector accepted."""
        self.loss_reason: str | None = None
        """Clause with the reason why spans were lost most recently; None if no spans were lost."""
        self._last_error: str | None = None
        self._exporter: SpanExporter | None = None
        self._unreachable = False
        self._closing = False
        self._guard = threading.Lock()

    def set_exporter(self, exporter: SpanExporter) -> None:
        """Set the exporter, which `give_up` shuts down."""
        self._exporter = exporter

    def note_failure(self, reason: str, *, unreachable: bool) -> None:
        """Record a failed request; `unreachable` means that the collector did not answer: retries are useless."""
        self._last_error = reason
        self._unreachable = unreachable
        if unreachable and self._closing:
            self.give_up()

    def note_success(self) -> None:
        """Record a successful request."""
        self._last_error, self._unreachable = None, False

    def note_end(self, span_count: int, *, is_sent: bool) -> None:
        """Record the end of sending a batch of spans, and whether the batch was sent."""
        if is_sent and self._last_error is None:
            self.arrived += span_count
        else:
            self.loss_reason = self._last_error or self.loss_reason or "the collector rejected them"

    def note_closing(self) -> None:
        """Record that the run has ended: from now on, the first request without an answer ends the sending."""
        self._closing = True
        if self._unreachable:
            self.give_up()

    def give_up(self) -> None:
        """Stop sending; spans that are still waiting are lost."""
        with self._guard:
            exporter, self._exporter = self._exporter, None
        if exporter is not None:
            exporter.shutdown()


class LogListener(logging.Handler):
    """Diverts the SDK's log messages, which contain the status of gRPC calls, to a monitor; `close` ends this."""

    def __init__(self, monitor: SendingMonitor) -> None:
        super().__init__()
        self._monitor = monitor
        self._logger = logging.getLogger("opentelemetry")
        self._propagated = self._logger.propagate
        self._logger.addHandler(self)
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Record a failure if the log message contains a gRPC status."""
        for argument in record.args if isinstance(record.args, tuple) else ():
            name = getattr(argument, "name", None)
            if type(argument).__name__ == "StatusCode" and isinstance(name, str):
                self._monitor.note_failure(
                    f"the collector answered {name}", unreachable=name in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
                )

    def close(self) -> None:
        """Restore the logger's previous settings."""
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated
        super().close()


class MonitoredExporter(SpanExporter):
    """An exporter that reports its results to a monitor."""

    def __init__(self, exporter: SpanExporter, monitor: SendingMonitor, *, silent: bool) -> None:
        """Wrap an exporter.

        Args:
            exporter: the exporter that sends the spans.
            monitor: the monitor to report to.
            silent: whether this class must report successful requests, since the exporter itself does not.
        """
        self._exporter = exporter
        self._monitor = monitor
        self._silent = silent
        monitor.set_exporter(exporter)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans and return the result; no exception is raised."""
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - no failure of a collector may fail a run
            self._monitor.note_failure(f"the request could not be made ({type(error).__name__})", unreachable=False)
        sent = result is SpanExportResult.SUCCESS
        if sent and self._silent:
            self._monitor.note_success()
        self._monitor.note_end(len(spans), is_sent=sent)
        return result

    def shutdown(self) -> None:
        """Stop sending."""
        self._monitor.give_up()


class _Session(requests.Session):
    """An HTTP session that reports the result of each request to a monitor."""

    def __init__(self, monitor: SendingMonitor, *, local: bool) -> None:
        super().__init__()
        self._monitor = monitor
        # Requests to this machine need no proxies or passwords from the environment.
        self.trust_env = not local

    def request(self, *args: Any, **more: Any) -> requests.Response:
        """Send a request, and report its result to the monitor."""
        try:
            response = super().request(*args, **more)
        except Exception as error:
            late = isinstance(error, requests.exceptions.Timeout)
            self._monitor.note_failure(
                "the collector did not answer in time" if late else "the collector could not be reached",
                unreachable=True,
            )
            raise
        if response.status_code >= 300:
            self._monitor.note_failure(f"the collector answered with status {response.status_code}", unreachable=False)
        else:
            self._monitor.note_success()
        return response


def otlp_exporter(destination: OtlpDestination, monitor: SendingMonitor) -> SpanExporter:
    """Return an OTLP exporter over HTTP or gRPC; nothing is sent yet.

    Raises:
        Exception: the SDK rejects its environment variables.
    """
    http = destination.protocol == "http"
    return MonitoredExporter(
        _http_exporter(destination, monitor) if http else _grpc_exporter(destination), monitor, silent=not http
    )


def _http_exporter(destination: OtlpDestination, monitor: SendingMonitor) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    compression = destination.given.compression
    return OTLPSpanExporter(
        endpoint=destination.endpoint,
        headers=_headers(destination),
        timeout=_timeout_s(destination),
        compression=None if compression is None else Compression(compression.strip().lower()),
        session=_Session(monitor, local=destination.local),
    )


def _grpc_exporter(destination: OtlpDestination) -> SpanExporter:
    from grpc import Compression
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    options: tuple[tuple[str, int], ...] = (("grpc.enable_http_proxy", 0),) if destination.local else ()
    compression = destination.given.compression
    return OTLPSpanExporter(
        endpoint=destination.endpoint,
        insecure=destination.given.insecure if destination.endpoint is None else None,
        headers=_headers(destination),
        timeout=_timeout_s(destination),
        compression=None
        if compression is None
        else Compression["NoCompression" if compression == "none" else compression.title()],
        channel_options=options or None,  # type: ignore[arg-type]
    )


def _headers(destination: OtlpDestination) -> dict[str, str] | None:
    headers = destination.given.headers
    # gRPC only accepts names in lower case.
    return headers and {name.strip().lower(): value.strip() for name, value in headers.items()}


def _timeout_s(destination: OtlpDestination) -> float | None:
    return None if destination.given.timeout_ms is None else destination.given.timeout_ms / 1000


MOST_KEPT = 2048
"""Maximum number of spans to keep until the end of the run."""


class ConsoleSpans(SpanProcessor):
    """Writes each finished span as JSON; on a terminal, which shows progress bars, writes all spans at the end."""

    def __init__(self, config: ConsoleExporter, stream: TextIO) -> None:
        """Store the settings of the exporter and the stream to write to."""
        self._config = config
        self._stream = stream
        self._kept: list[str] | None = [] if stream.isatty() else None

    def on_end(self, span: ReadableSpan) -> None:
        """Write a finished span, or keep it until the end."""
        text = self._text(span)
        if self._kept is None:
            self._stream.write(text)
        elif len(self._kept) < MOST_KEPT:
            self._kept.append(text)

    def shutdown(self) -> None:
        """Write the spans that were kept until the end."""
        if self._kept:
            self._stream.write("".join(self._kept))
            self._kept.clear()
        self._stream.flush()

    def _text(self, span: ReadableSpan) -> str:
        shown: Mapping[str, Any] = parse_json(span.to_json(), constants=True)
        if self._config.include_timestamps is False:
            shown = {key: value for key, value in shown.items() if key not in ("start_time", "end_time")}
        text = json.dumps(shown, indent=None if self._config.pretty_print is False else 4)
        # Escape what GitHub's runner would read as a command in a log; it can only occur inside JSON strings.
        return text.replace("::", ":\\u003a").replace("##[", "##\\u005b") + "\n"
