"""A real HTTP service on loopback whose answers tests write down, byte by byte where needed."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: Any


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that leave; `socketserver` would print it."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Service:
    """Answers every POST with `respond(handler, received)`; `received` keeps all requests in their order."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.respond: Callable[[Handler, Received], None] = lambda handler, _: handler.answer({"response": "hello"})
        self.released = threading.Event()
        self._server = _Server(("127.0.0.1", 0), type("Bound", (Handler,), {"service": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Handler(BaseHTTPRequestHandler):
    service: Service
    protocol_version = "HTTP/1.1"
    # Or the body would wait for the acknowledgement of the header, which clients delay by 40 ms.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.path, headers, json.loads(data))
        self.service.received.append(received)
        try:
            self.service.respond(self, received)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, body: Any, status: int = 200, **headers: str) -> None:
        """Answer with bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def chunks(self, **headers: str) -> Callable[[bytes], None]:
        """Start an answer without a known length; returns what sends a chunk."""
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

        def send(data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        return send

    def log_message(self, format: str, *args: Any) -> None:
        """Keep test output quiet."""
