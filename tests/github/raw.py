"""A server that sends exactly the bytes of a test, however wrong: what no honest GitHub would."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

Script = Callable[[int, str], Iterable[bytes]]
"""Gives the bytes that answer a request: from its count, starting at 0, and its text. The connection closes after."""


def answer(
    body: bytes | str | list[Any] | dict[str, Any] | None,
    *headers: str,
    status: int = 200,
    length: int | None = None,
    stays: bool = False,
) -> bytes:
    """Return an answer; what is not text is sent as JSON.

    Args:
        body: of the answer.
        headers: further lines of its head.
        status: HTTP status.
        length: the Content-Length that it claims, when not the true one.
        stays: whether it leaves the connection open.
    """
    data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(data) if length is None else length}", *headers]
    return "\r\n".join([*lines, *([] if stays else ["Connection: close"]), "", ""]).encode() + data


@contextmanager
def serving(script: Script, *, one_connection: bool = False) -> Iterator[tuple[str, list[str]]]:
    """Serve on loopback; yields the address and the requests so far.

    With `one_connection` the first connection stays open for further requests, and no second one is answered.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[str] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            Thread(target=_serve, args=(connection, script, requests, one_connection), daemon=True).start()
            if one_connection:
                return

    Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        # A thread that waits in accept wakes up only this way.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _serve(connection: socket.socket, script: Script, requests: list[str], stays: bool) -> None:
    with connection:
        while text := _request(connection):
            requests.append(text)
            try:
                for piece in script(len(requests) - 1, text):
                    connection.sendall(piece)
            except OSError:
                # The client had enough.
                return
            if not stays:
                return


def _request(connection: socket.socket) -> str:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return ""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0]):
        body += connection.recv(65536)
    return (head + b"\r\n\r\n" + body).decode()
