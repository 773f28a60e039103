"""A server on loopback that answers by a script, in a thread for each connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Generic, TypeVar

T = TypeVar("T")


class ScriptServer(ThreadingHTTPServer, Generic[T]):
    """Serves requests by a script.

    Attributes:
        script: decides the replies; handlers read it.
        closing: set when the server ends, so that replies that hang end, too.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler: type[BaseHTTPRequestHandler], script: T) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.script = script
        self.closing = threading.Event()

    def handle_error(self, *_: object) -> None:
        """Ignore clients that leave."""


@contextmanager
def serve_script(handler: type[BaseHTTPRequestHandler], script: object) -> Iterator[str]:
    """Serve a script; yields the address of the server."""
    server = ScriptServer(handler, script)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
