"""The command `view`: serves the pages of runs on this machine, updated while a run is in progress.

The server listens on 127.0.0.1 only. The paths of its URLs begin with a random token. It refuses requests with another
`Host` header, which protects against DNS rebinding. It writes no files and sends nothing else.
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
from urllib.parse import parse_qs

from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.view.listed_runs import ListedRun, list_runs, progress_of, side_by_side
from holodeck_action.reports.page.run_columns import MOST_RUNS
from holodeck_action.reports.page.viewer import asset, page_policy, render_page, style_policy
from holodeck_action.reports.templating import shipped_template
from holodeck_action.reports.untrusted import wrap
from holodeck_action.run.caller import Caller
from holodeck_action.run.error_reports import explain_error
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


def view_runs(paths: Sequence[GivenPath], port: int, browser: bool, caller: Caller) -> int:
    """Serve the pages of runs until the user interrupts the program.

    Args:
        paths: results files, folders of them, or histories; if empty, the last runs are served.
        port: port to listen on; 0 to choose a free port.
        browser: whether to open a browser.
        caller: receives the URL on standard output.

    Raises:
        ConfigurationError: a given path contains no run, or the port cannot be used.
    """
    list_runs(paths, caller, caller.note)
    token = secrets.token_urlsafe(24)
    try:
        server = _Server((ADDRESS, port), _Handler)
    except OSError as error:
        raise ConfigurationError(
            [f"--port {port}: cannot be listened on: {error.strerror}; give another port"]
        ) from error
    server.site = _Site(tuple(paths), caller, token, server.server_address[1])
    with server:
        address = f"http://{ADDRESS}:{server.site.port}/{token}/"
        caller.stdout.write(f"{address}\n")
        caller.stdout.flush()
        caller.stderr.write(
            "note: anyone on this machine who knows this address can read the runs; press Ctrl-C to stop\n"
        )
        caller.stderr.flush()
        if browser:
            _open_browser(address)
        # The user ends the server this way.
        with suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
    return ExitCode.PASSED


def _open_browser(address: str) -> None:
    import webbrowser

    # A text browser in the terminal would block the server.
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


class _Answer(Struct, frozen=True):
    status: HTTPStatus
    kind: str
    body: Iterable[bytes]
    policy: str = "default-src 'none'"


_NOT_FOUND = _Answer(HTTPStatus.NOT_FOUND, _TEXT, [b"There is nothing here.\n"])


class _Site(Struct, frozen=True):
    """The content of the server: the list of runs, their pages, and their progress."""

    given: tuple[GivenPath, ...]
    caller: Caller
    token: str
    port: int

    def answer(self, host: str, path: str) -> _Answer:
        """Return the response to a request."""
        if host not in (f"{ADDRESS}:{self.port}", f"localhost:{self.port}"):
            return _Answer(HTTPStatus.MISDIRECTED_REQUEST, _TEXT, [b"This server does not have that name.\n"])
        place, _, query = path.partition("?")
        first, token, *rest = place.split("/") if "/" in place else ("", "")
        if first or not secrets.compare_digest(token.encode(), self.token.encode()):
            return _NOT_FOUND
        try:
            found = self._route(rest, query)
            # Cases of large results are read while the page is written.
            return replace(found, body=[b"".join(found.body)])
        except ConfigurationError as error:
            said = "\n".join(one_line(line, 1000) for line in error.lines)
            return _Answer(HTTPStatus.CONFLICT, _TEXT, [f"{said}\n".encode()])
        except OSError as error:
            # A run in progress moves and removes its files.
            said = one_line(f"{error.filename or 'a file'}: cannot be read: {error.strerror}", 1000)
            return _Answer(HTTPStatus.CONFLICT, _TEXT, [f"{said}\n".encode()])
        except Exception as error:  # noqa: BLE001 - the reader gets a sentence about the defect, and the server goes on
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, [f"{self.defect_text(error)}\n".encode()])

    def defect_text(self, error: BaseException) -> str:
        """Return one line that describes an internal error."""
        return one_line(" ".join(map(str, explain_error(error, self.caller.environ).problems)), 1000)

    def _route(self, path_parts: Sequence[str], query: str) -> _Answer:
        match path_parts:
            case [""]:
                return self._list_page()
            case ["runs", ""]:
                return self._columns_page(parse_qs(query).get("run", []))
            case ["run", key, ""]:
                return self._run_page(key)
            case ["run", key, "live"]:
                run = self._find_run(key)
                return _NOT_FOUND if run is None else self._progress_answer(run)
        return _NOT_FOUND

    def _find_run(self, key: str) -> ListedRun | None:
        return next((run for run in list_runs(self.given, self.caller) if run.key == key), None)

    def _list_page(self) -> _Answer:
        style = asset("runs.css")
        listed = list_runs(self.given, self.caller)
        chosen = len(self.given) == len(listed) and 1 < len(listed) <= MOST_RUNS
        runs = [
            {
                "chosen": chosen,
                "key": run.key,
                "title": run.title,
                "outcome": run.outcome,
                "sentence": run.sentence,
                "place": run.place,
                "changed": datetime.fromtimestamp(run.changed, UTC).strftime("%Y-%m-%d %H:%M UTC"),
            }
            for run in listed
        ]
        text = shipped_template("runs.html.j2").render(runs=wrap(runs), style=style)
        return _Answer(HTTPStatus.OK, _HTML, [text.encode("utf-8", "replace")], style_policy(style))

    def _run_page(self, key: str) -> _Answer:
        run = self._find_run(key)
        if run is None:
            return _NOT_FOUND
        view = replace(run.view(), live=f"/{self.token}/run/{key}/live")
        return _Answer(HTTPStatus.OK, _HTML, render_page(view), page_policy(is_live=True))

    def _columns_page(self, keys: Sequence[str]) -> _Answer:
        runs = [run for run in list_runs(self.given, self.caller) if run.key in keys]
        if len(runs) < 2:
            raise ConfigurationError(["choose at least two runs in the list"])
        return _Answer(HTTPStatus.OK, _HTML, render_page(side_by_side(runs)), page_policy(is_live=False))

    def _progress_answer(self, run: ListedRun) -> _Answer:
        return _Answer(HTTPStatus.OK, _JSON, [encode(progress_of(run))])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Connections wait while large pages are written.
    request_queue_size = 64
    site: _Site

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print a note about an internal error; closed connections are ignored."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError | TimeoutError):
            self.site.caller.stderr.write(f"note: {self.site.defect_text(error)}\n")


class _Handler(BaseHTTPRequestHandler):
    """Responds to GET and HEAD requests; the base class refuses all other methods."""

    server: _Server
    server_version, sys_version = "holodeck-action", ""
    timeout = 30

    def do_GET(self) -> None:
        """Respond with headers and body."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Respond with headers only."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        answer = self.server.site.answer(self.headers.get("Host", ""), self.path)
        body = b"".join(answer.body) if with_body else b""
        self.send_response(answer.status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", f"{answer.policy}; frame-ancestors 'none'")
        self.send_header("Content-Type", answer.kind)
        if with_body:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, since the path of a request contains the token."""
