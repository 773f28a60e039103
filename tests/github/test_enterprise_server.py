"""GitHub Enterprise Server in a company's network: over a proxy, with a certificate that only the company signs."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.github.fake import FakeGitHub
from tests.github.life import suite
from tests.github.steps import ALL, Scene
from tests.targets.attachments.site import certified

HOST = "github.corp.example"
API = {"GITHUB_API_URL": f"https://{HOST}/api/v3", "GITHUB_SERVER_URL": f"https://{HOST}"}
DEAD = "http://127.0.0.1:9"


@contextmanager
def proxy(tls: ssl.SSLContext, hub: FakeGitHub) -> Iterator[tuple[str, list[str]]]:
    """A proxy whose tunnels all end at the fake, behind TLS; yields its URL, and fills a list with what it connects."""
    connected: list[str] = []
    port = int(hub.url.rpartition(":")[2])

    class Tunnel(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_CONNECT(self) -> None:
            connected.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.connection = tls.wrap_socket(self.connection, server_side=True)
            self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
            self.close_connection = False

        def forward(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            there = HTTPConnection("127.0.0.1", port, timeout=60)
            there.request(self.command, self.path, content, dict(self.headers))
            answer = there.getresponse()
            body = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            there.close()

        do_GET = do_POST = do_PATCH = forward  # noqa: N815 - the library's names

        def finish(self) -> None:
            super().finish()
            self.connection.close()

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that does not trust the certificate leaves."""

    with Server(("127.0.0.1", 0), Tunnel) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", connected
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture
def scene(hub: FakeGitHub, project: Project) -> Scene:
    suite(project, "refund")
    made = Scene(hub, project)
    made.show_diff()
    return made


@pytest.mark.full
@pytest.mark.parametrize("trusted", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", ""])
def test_a_proxy_and_a_certificate_of_the_company(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str
) -> None:
    tls, certificate = certified(tmp_path, HOST)
    with proxy(tls, scene.hub) as (url, connected):
        monkeypatch.setenv("HTTPS_PROXY", url)
        if trusted:
            monkeypatch.setenv(trusted, str(certificate))
        ended = scene.step(ALL, **API)
    assert set(connected) == {f"{HOST}:443"}
    if trusted:
        assert len(scene.comments()) == 1
        assert all(re.match("/api/(v3/|graphql)", call.path) for call in scene.hub.requests)
        assert "❌" not in ended.summary.partition("### Published")[2]
    else:
        assert scene.hub.requests == []
        assert "its certificate is not trusted here" in ended.summary
    assert ended.code == 1


@pytest.mark.parametrize("excepted", [True, False])
def test_a_host_without_the_proxy(scene: Scene, monkeypatch: pytest.MonkeyPatch, excepted: bool) -> None:
    """0.0.0.0 is this machine, but not by its name."""
    monkeypatch.setenv("HTTP_PROXY", DEAD)
    if excepted:
        monkeypatch.setenv("no_proxy", "0.0.0.0")
    ended = scene.step(GITHUB_API_URL=scene.hub.enterprise_url.replace("127.0.0.1", "0.0.0.0"))
    assert len(scene.comments()) == excepted
    assert ("no connection could be made" in ended.summary) == (not excepted)


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_certificates_that_are_not_there(scene: Scene, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "/no/such/file.pem")
    ended = scene.step(ALL, **API)
    assert "the proxy or the certificates that the environment names cannot be used" in ended.summary
