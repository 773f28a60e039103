"""Collectors of OpenTelemetry on loopback: real HTTP and real gRPC, with what arrived as plain values."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass(frozen=True)
class Span:
    """A span that arrived."""

    name: str
    trace: bytes
    identity: bytes
    parent: bytes
    kind: int
    start: int
    end: int
    failed: bool
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]


@dataclass
class Collector:
    """What arrived, and how to answer: `status` by HTTP, or by a name of gRPC; `delay` seconds before that."""

    url: str = ""
    status: int | str = 200
    delay: float = 0.0
    requests: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    """Ends all delays."""

    def take(self, body: bytes, headers: Mapping[str, str], path: str) -> None:
        self.requests.append(headers)
        self.paths.append(path)
        self.bodies.append(body)
        found = [*_read(ExportTraceServiceRequest.FromString(body))]
        self.sizes.append(len(found))
        self.spans += found

    def named(self, beginning: str) -> list[Span]:
        """Spans whose names begin so, in the order of their starts."""
        return sorted((span for span in self.spans if span.name.startswith(beginning)), key=lambda span: span.start)

    def one(self, beginning: str) -> Span:
        (found,) = self.named(beginning)
        return found

    def below(self, parent: Span) -> list[Span]:
        return [span for span in self.named("") if span.parent == parent.identity]

    def tree(self, parent: bytes = b"") -> dict[str, Any]:
        """Names below names, from the root."""
        return {span.name: self.tree(span.identity) for span in self.named("") if span.parent == parent}


def _read(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        shared = {item.key: _value(item.value) for item in resource.resource.attributes}
        for scope in resource.scope_spans:
            assert scope.scope.name == "holodeck_action"
            assert scope.schema_url == "https://opentelemetry.io/schemas/1.41.0"
            for span in scope.spans:
                yield Span(
                    span.name,
                    span.trace_id,
                    span.span_id,
                    span.parent_span_id,
                    span.kind,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.code == 2,
                    {item.key: _value(item.value) for item in span.attributes},
                    shared,
                )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def http_collector() -> Iterator[Collector]:
    """A collector for OTLP over HTTP."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            coding = self.headers.get("content-encoding", "")
            codings: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "deflate": zlib.decompress}
            body = codings.get(coding, bytes)(body)
            if collector.status == 200 and not collector.delay:
                collector.take(body, {key.lower(): value for key, value in self.headers.items()}, self.path)
            else:
                collector.requests.append({})
                collector.closing.wait(collector.delay)
            self.send_response(int(collector.status))
            if int(collector.status) in (301, 307):
                self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        # A handler that still sleeps is left behind.
        block_on_close = False

        def handle_error(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.closing.set()
        server.shutdown()
        server.server_close()


@contextmanager
def grpc_collector() -> Iterator[Collector]:
    """A collector for OTLP over gRPC."""
    import grpc

    collector = Collector()

    def export(body: bytes, context: Any) -> bytes:
        collector.closing.wait(collector.delay)
        if collector.status != 200:
            collector.requests.append({})
            context.abort(grpc.StatusCode[str(collector.status)], "no")
        collector.take(body, dict(context.invocation_metadata()), METHOD)
        return bytes(ExportTraceServiceResponse().SerializeToString())

    class Service(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(export) if details.method == METHOD else None

    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Service(),))
    port = server.add_insecure_port("127.0.0.1:0")
    collector.url = f"http://127.0.0.1:{port}"
    server.start()
    try:
        yield collector
    finally:
        collector.closing.set()
        server.stop(0).wait(60)
