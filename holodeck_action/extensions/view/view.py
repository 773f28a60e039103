"""`view`: the pages of runs, served on this machine to whoever knows the address; live while a run goes on.

The server listens on 127.0.0.1 alone. Its addresses begin with a random token, requests must name it as their host (a
page of another origin that has its name resolved to this machine does not), and nothing is written or sent on.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.view.shown_runs import ShownRun, progress_of, shown_runs
from holodeck_action.reports.page.viewer import asset, page_of, page_policy, style_policy
from holodeck_action.reports.templating import shipped_template
from holodeck_action.reports.untrusted import wrap
from holodeck_action.run.caller import Caller
from holodeck_action.run.error_reports import explained
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

ADDRESS = "127.0.0.1"
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_HTML, _JSON, _TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"


def view_runs(given: Sequence[GivenPath], port: int, browser: bool, caller: Caller) -> int:
    """Serve the pages of runs until it is interrupted.

    Args:
        given: results files or folders of them; empty for the last runs.
        port: to listen on; 0 for any that is free.
        browser: whether a browser is opened.
        caller: whose standard output takes the address.

    Raises:
        ConfigurationError: what is given holds no run, or the port cannot be listened on.
    """
    shown_runs(given, caller, caller.note)
    token = secrets.token_urlsafe(24)
    try:
        server = _Server((ADDRESS, port), _Handler)
    except OSError as error:
        raise ConfigurationError(
            [f"--port {port}: cannot be listened on: {error.strerror}; give another port"]
        ) from error
    server.site = _Site(tuple(given), caller, token, server.server_address[1])
    with server:
        address = f"http://{ADDRESS}:{server.site.port}/{token}/"
        caller.stdout.write(f"{address}\n")
        caller.stdout.flush()
        caller.stderr.write("note: whoever has this address on this machine can read the runs; Ctrl-C ends\n")
        caller.stderr.flush()
        if browser:
            _open(address)
        # That is how it ends.
        with suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
    return ExitCode.PASSED


def _open(address: str) -> None:
    import webbrowser

    # A browser in a terminal would hold up the server.
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


class _Answer(Struct, frozen=True):
    status: HTTPStatus
    kind: str
    body: Iterable[bytes]
    policy: str = "default-src 'none'"


_NOTHING = _Answer(HTTPStatus.NOT_FOUND, _TEXT, [b"There is nothing here.\n"])


class _Site(Struct, frozen=True):
    """What is served: a list of runs, their pages, and how far each is."""

    given: tuple[GivenPath, ...]
    caller: Caller
    token: str
    port: int

    def answer(self, host: str, path: str) -> _Answer:
        """Return the answer to a request for a path."""
        if host not in (f"{ADDRESS}:{self.port}", f"localhost:{self.port}"):
            return _Answer(HTTPStatus.MISDIRECTED_REQUEST, _TEXT, [b"This server does not have that name.\n"])
        first, token, *rest = path.partition("?")[0].split("/") if "/" in path else ("", "")
        if first or not secrets.compare_digest(token.encode(), self.token.encode()):
            return _NOTHING
        try:
            found = self._of(rest)
            # Cases of large results are read while the page is made.
            return replace(found, body=[b"".join(found.body)])
        except ConfigurationError as error:
            said = "\n".join(one_line(line, 1000) for line in error.lines)
            return _Answer(HTTPStatus.CONFLICT, _TEXT, [f"{said}\n".encode()])
        except OSError as error:
            # A run that goes on moves and removes its files.
            said = one_line(f"{error.filename or 'a file'}: cannot be read: {error.strerror}", 1000)
            return _Answer(HTTPStatus.CONFLICT, _TEXT, [f"{said}\n".encode()])
        except Exception as error:  # noqa: BLE001 - a defect is one sentence for the reader, and the server goes on
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, [f"{self.defect(error)}\n".encode()])

    def defect(self, error: BaseException) -> str:
        """Say in one line what went wrong in our own code."""
        return one_line(" ".join(map(str, explained(error, self.caller.environ).problems)), 1000)

    def _of(self, parts: Sequence[str]) -> _Answer:
        match parts:
            case [""]:
                return self._list()
            case ["run", key, ""]:
                return self._page(key)
            case ["run", key, "live"]:
                run = self._run(key)
                return _NOTHING if run is None else self._live(run)
        return _NOTHING

    def _run(self, key: str) -> ShownRun | None:
        return next((run for run in shown_runs(self.given, self.caller) if run.key == key), None)

    def _list(self) -> _Answer:
        style = asset("runs.css")
        runs = [
            {
                "key": run.key,
                "title": run.title,
                "outcome": run.outcome,
                "sentence": run.sentence,
                "place": run.place,
                "changed": datetime.fromtimestamp(run.changed, UTC).strftime("%Y-%m-%d %H:%M UTC"),
            }
            for run in shown_runs(self.given, self.caller)
        ]
        text = shipped_template("runs.html.j2").render(runs=wrap(runs), style=style)
        return _Answer(HTTPStatus.OK, _HTML, [text.encode("utf-8", "replace")], style_policy(style))

    def _page(self, key: str) -> _Answer:
        run = self._run(key)
        if run is None:
            return _NOTHING
        view = replace(run.view(), live=f"/{self.token}/run/{key}/live")
        return _Answer(HTTPStatus.OK, _HTML, page_of(view), page_policy(live=True))

    def _live(self, run: ShownRun) -> _Answer:
        return _Answer(HTTPStatus.OK, _JSON, [encode(progress_of(run))])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # While large pages are made, connections wait to be taken.
    request_queue_size = 64
    site: _Site

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write one line about a defect; that a browser has left is nothing to write about."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError | TimeoutError):
            self.site.caller.stderr.write(f"note: {self.site.defect(error)}\n")


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; the base class refuses any other method."""

    server: _Server
    server_version, sys_version = "holodeck-action", ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer with the whole body."""
        self._answer(whole=True)

    def do_HEAD(self) -> None:
        """Answer without the body."""
        self._answer(whole=False)

    def _answer(self, *, whole: bool) -> None:
        answer = self.server.site.answer(self.headers.get("Host", ""), self.path)
        body = b"".join(answer.body) if whole else b""
        self.send_response(answer.status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", f"{answer.policy}; frame-ancestors 'none'")
        self.send_header("Content-Type", answer.kind)
        if whole:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if whole:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the address holds the token."""
