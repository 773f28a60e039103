"""The ways out: OTLP over HTTP or gRPC, watched, and standard error. Needs the packages of the `otel` extra."""

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
from holodeck_action.extensions.tracing.traces import Otlp
from holodeck_action.text.json_values import parse_json


class Watch:
    """Knows how sending goes: what arrived, why the rest did not, and whether it is time to give up."""

    def __init__(self) -> None:
        self.arrived = 0
        """Spans that the collector took."""
        self.lost: str | None = None
        """Why the last spans that were lost were, for a sentence; None when none were."""
        self._trouble: str | None = None
        self._exporter: SpanExporter | None = None
        self._away = False
        self._closing = False
        self._guard = threading.Lock()

    def of(self, exporter: SpanExporter) -> None:
        """Watch an exporter."""
        self._exporter = exporter

    def met(self, trouble: str, *, away: bool) -> None:
        """Note a failed request; `away` when nobody answered, so that trying again at the end would only cost time."""
        self._trouble = trouble
        self._away = away
        if away and self._closing:
            self.give_up()

    def answered(self) -> None:
        """Note a request that went well."""
        self._trouble, self._away = None, False

    def ended(self, spans: int, *, sent: bool) -> None:
        """Note that no more is tried for some spans."""
        if sent and self._trouble is None:
            self.arrived += spans
        else:
            self.lost = self._trouble or self.lost or "they were not taken"

    def closing(self) -> None:
        """Say that the run has ended: from now on the first request that nobody answers is the last."""
        self._closing = True
        if self._away:
            self.give_up()

    def give_up(self) -> None:
        """Stop sending; what waits is lost."""
        with self._guard:
            exporter, self._exporter = self._exporter, None
        if exporter is not None:
            exporter.shutdown()


class Listener(logging.Handler):
    """Hands what the SDK logs to a watch and to nobody else, until it is closed: there is the status of gRPC calls."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch
        self._logger = logging.getLogger("opentelemetry")
        self._propagated = self._logger.propagate
        self._logger.addHandler(self)
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Look for a status."""
        for argument in record.args if isinstance(record.args, tuple) else ():
            name = getattr(argument, "name", None)
            if type(argument).__name__ == "StatusCode" and isinstance(name, str):
                self._watch.met(f"it answered {name}", away=name in ("UNAVAILABLE", "DEADLINE_EXCEEDED"))

    def close(self) -> None:
        """Return to what was before."""
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated
        super().close()


class Counted(SpanExporter):
    """An exporter that tells a watch what arrived."""

    def __init__(self, exporter: SpanExporter, watch: Watch, *, silent: bool) -> None:
        """Take an exporter; a `silent` one does not tell the watch of requests that went well."""
        self._exporter = exporter
        self._watch = watch
        self._silent = silent
        watch.of(exporter)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send; never fails but by its result."""
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - no trouble of a collector is trouble of a run
            self._watch.met(f"the request could not be made ({type(error).__name__})", away=False)
        sent = result is SpanExportResult.SUCCESS
        if sent and self._silent:
            self._watch.answered()
        self._watch.ended(len(spans), sent=sent)
        return result

    def shutdown(self) -> None:
        """Stop sending."""
        self._watch.give_up()


class _Session(requests.Session):
    """A session that tells a watch how each request went."""

    def __init__(self, watch: Watch, *, local: bool) -> None:
        super().__init__()
        self._watch = watch
        # Proxies and passwords of the environment are nothing to this machine.
        self.trust_env = not local

    def request(self, *args: Any, **more: Any) -> requests.Response:
        """Send a request."""
        try:
            response = super().request(*args, **more)
        except Exception as error:
            late = isinstance(error, requests.exceptions.Timeout)
            self._watch.met("it did not answer in time" if late else "it could not be reached", away=True)
            raise
        if response.status_code >= 300:
            self._watch.met(f"it answered with status {response.status_code}", away=False)
        else:
            self._watch.answered()
        return response


def otlp_exporter(plan: Otlp, watch: Watch) -> SpanExporter:
    """Build the exporter; nothing is sent yet.

    Raises:
        Exception: whatever the SDK says of its variables.
    """
    http = plan.protocol == "http"
    return Counted(_http(plan, watch) if http else _grpc(plan), watch, silent=not http)


def _http(plan: Otlp, watch: Watch) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(
        endpoint=plan.endpoint,
        headers=_headers(plan),
        timeout=_seconds(plan),
        compression=None if plan.given.compression is None else Compression(plan.given.compression.strip().lower()),
        session=_Session(watch, local=plan.local),
    )


def _grpc(plan: Otlp) -> SpanExporter:
    from grpc import Compression
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    options: tuple[tuple[str, int], ...] = (("grpc.enable_http_proxy", 0),) if plan.local else ()
    asked = plan.given.compression
    return OTLPSpanExporter(
        endpoint=plan.endpoint,
        insecure=plan.given.insecure if plan.endpoint is None else None,
        headers=_headers(plan),
        timeout=_seconds(plan),
        compression=None if asked is None else Compression["NoCompression" if asked == "none" else asked.title()],
        channel_options=options or None,  # type: ignore[arg-type]
    )


def _headers(plan: Otlp) -> dict[str, str] | None:
    headers = plan.given.headers
    # gRPC takes names in lower case alone.
    return headers and {name.strip().lower(): value.strip() for name, value in headers.items()}


def _seconds(plan: Otlp) -> float | None:
    return None if plan.given.timeout_ms is None else plan.given.timeout_ms / 1000


MOST_KEPT = 2048
"""Spans that are kept for the end."""


class ConsoleSpans(SpanProcessor):
    """Writes every span that ends as JSON; on a terminal, where a bar is drawn meanwhile, all of them at the end."""

    def __init__(self, config: ConsoleExporter, stream: TextIO) -> None:
        """Write to `stream`."""
        self._config = config
        self._stream = stream
        self._kept: list[str] | None = [] if stream.isatty() else None

    def on_end(self, span: ReadableSpan) -> None:
        """Write a span, or keep it for the end."""
        text = self._text(span)
        if self._kept is None:
            self._stream.write(text)
        elif len(self._kept) < MOST_KEPT:
            self._kept.append(text)

    def shutdown(self) -> None:
        """Write what was kept."""
        if self._kept:
            self._stream.write("".join(self._kept))
            self._kept.clear()
        self._stream.flush()

    def _text(self, span: ReadableSpan) -> str:
        shown: Mapping[str, Any] = parse_json(span.to_json(), constants=True)
        if self._config.include_timestamps is False:
            shown = {key: value for key, value in shown.items() if key not in ("start_time", "end_time")}
        text = json.dumps(shown, indent=None if self._config.pretty_print is False else 4)
        # Inside JSON texts, where alone they can be: what GitHub's runner would take for a command in a log.
        return text.replace("::", ":\\u003a").replace("##[", "##\\u005b") + "\n"
