"""The fake's HTTP server."""

from __future__ import annotations

import json
import re
import socket
import sys
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, RLock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.github.fake.answers import MOST_PER_PAGE, Answer, RefusedError, Request, message
from tests.github.fake.contract import contract
from tests.github.fake.faults import Fault, Faults
from tests.github.fake.graphql import execute
from tests.github.fake.limits import Problem, text_problems
from tests.github.fake.operations import carry_out, served
from tests.github.fake.permissions import Token, denial
from tests.github.fake.records import Ledger
from tests.github.fake.repository import Repository
from tests.github.fake.stored_operations import STORAGE, file_of

_PREFIX = "/api/v3"
"""Where the API of a GitHub Enterprise Server is; the fake answers there, too."""
_GRAPHQL = {"/graphql": "", "/api/graphql": _PREFIX}
_BRANCHES = re.compile(r"^(/repos/[^/]+/[^/]+/(?:git/refs?|compare)/)(.+)$")
_IDLE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it came: `query` has the first value of each parameter, `token` is without its scheme."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    token: str | None


class FakeGitHub:
    """A GitHub on a free port of 127.0.0.1, from `with FakeGitHub() as hub` to the end of the block."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._lock = RLock()
        self._ledger = Ledger()
        self._tokens: dict[str, Token] = {}
        self._repositories: dict[str, Repository] = {}
        self._faults = Faults()
        self._calls: list[Call] = []
        self._violations: list[str] = []
        self._closing = Event()
        self._late, self._now = False, 0.0
        self._server: _Server | None = None

    def __enter__(self) -> FakeGitHub:
        contract()
        self._server = _Server((self._host, 0), self)
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop answering; calls that are under way end without an answer."""
        self._closing.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.close_connections()
            self._server.server_close()
            self._server = None

    @property
    def url(self) -> str:
        """Where the API is; GraphQL is at `/graphql` below it."""
        assert self._server is not None, "the hub has not been started"
        return f"http://{self._host}:{self._server.server_address[1]}"

    @property
    def enterprise_url(self) -> str:
        """Where the API is as on a GitHub Enterprise Server; GraphQL is at `/api/graphql` of the host."""
        return f"{self.url}{_PREFIX}"

    def add_token(self, value: str, token: Token) -> None:
        """Let a token be known."""
        with self._lock:
            self._tokens[value] = token

    def add_repository(self, name: str, *, issues: bool = True) -> Repository:
        """Make a repository `owner/name`, perhaps with issues disabled."""
        with self._lock:
            repository = Repository(name, issues=issues, api=self.url, ledger=self._ledger, lock=self._lock)
            self._repositories[name] = repository
            return repository

    def repository(self, name: str) -> Repository:
        """Return a repository that was made."""
        with self._lock:
            return self._repositories[name]

    def fail(self, fault: Fault) -> None:
        """Order a fault: it waits behind those ordered before, and the first that is about a request is used."""
        with self._lock:
            self._faults.add(fault)

    def heal(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._faults.clear()

    @property
    def requests(self) -> list[Call]:
        """All requests so far."""
        with self._lock:
            return list(self._calls)

    @property
    def violations(self) -> list[str]:
        """What broke GitHub's description or a documented limit: a sentence each."""
        with self._lock:
            return list(self._violations)

    def take_violations(self) -> list[str]:
        """Return the violations and forget them: for tests that mean them."""
        with self._lock:
            taken, self._violations = self._violations, []
            return taken

    def answer(self, incoming: _Incoming) -> tuple[Answer | None, Fault | None]:
        """Answer a request; no answer: the connection is to be closed. A fault is returned with what it changed."""
        with self._lock:
            self._calls.append(incoming.call)
            fault = self._faults.take(incoming.call.method, incoming.call.path, incoming.query)
            self._late = fault is not None and fault.late
            # A request that meets a fault has to be right all the same.
            request = self._kept(incoming) if incoming.call.path.startswith(STORAGE) else self._judged(incoming)
            if fault is not None and (fault.status is not None or fault.drop == "before"):
                return (None if fault.status is None else Answer(fault.status, fault.body, fault.headers)), fault
            answer = request if isinstance(request, Answer) else self._carried_out(request, incoming)
            return (None if fault is not None and fault.drop else answer), fault

    def note_defect(self, error: BaseException | None) -> None:
        """Tell the test that the fake itself has failed."""
        with self._lock:
            self._violations.append(f"the fake failed: {error!r}")

    def monotonic(self) -> float:
        """Return the seconds of a clock that stands still, and runs on while a late answer is read."""
        with self._lock:
            self._now += 1e6 if self._late else 0.0
            return self._now

    def wait(self, seconds: float) -> bool:
        """Wait; return whether the hub still answers then."""
        return not self._closing.wait(seconds)

    def _kept(self, incoming: _Incoming) -> Answer:
        """Answer as the storage does, which is no part of the API: whoever has the address may read."""
        if incoming.call.token is not None:
            return self._violated(incoming, Answer(400), "a token was sent to the storage")
        content = file_of(self._repositories, incoming.call.path)
        if content is None or incoming.call.query.get("sig") != "secret":
            return Answer(403)
        return Answer(200, content, {"Content-Type": "application/octet-stream"})

    def _judged(self, incoming: _Incoming) -> Request | Token | Answer:
        """Return the request that is to be carried out (the token for GraphQL) or its refusal."""
        call = incoming.call
        token = self._tokens.get(call.token or "")
        unknown = message(401, "Bad credentials" if call.token else "Requires authentication")
        if incoming.malformed or (texts := list(text_problems(call.body))):
            problem = incoming.malformed or texts[0].message
            return self._violated(incoming, message(400, "Problems parsing JSON"), problem)
        if call.path in _GRAPHQL:
            if call.method != "POST":
                return self._violated(incoming, message(404, "Not Found"), "GraphQL is asked by POST")
            return token or unknown
        # GitHub takes names of branches with their slashes, too.
        path = _BRANCHES.sub(lambda found: found[1] + found[2].replace("/", "%2F"), call.path.removeprefix(_PREFIX))
        operation = contract().find(call.method, path)
        if operation is None or (call.method, operation.template) not in served():
            what = "no call of the description" if operation is None else "a call that the fake cannot carry out"
            return self._violated(incoming, message(404, "Not Found"), what)
        query = parse_qs(incoming.query, keep_blank_values=True)
        problems = contract().request_problems(operation, path, query, incoming.body, incoming.content_type)
        problems = problems or _page_problems(call.query)
        if problems:
            return self._violated(incoming, message(422, "Invalid request.\n\n" + "\n".join(problems)), *problems)
        if token is None:
            return unknown
        if denied := denial(token, call.method, operation.template):
            return message(*denied)
        body = call.body if isinstance(call.body, dict) else {}
        api = incoming.host + (_PREFIX if call.path.startswith(_PREFIX) else "")
        return Request(operation, api, path, call.query, body, token, self._repositories)

    def _carried_out(self, request: Request | Token, incoming: _Incoming) -> Answer:
        if isinstance(request, Token):
            result = execute(incoming.call.body, request, self._repositories.values())
            for violation in result.violations:
                self._violated(incoming, Answer(200), violation)
            return Answer(200, result.body)
        try:
            answer = carry_out(request)
        except RefusedError as refused:
            answer = refused.answer
            if refused.problems:
                self._violated(incoming, answer, *refused.problems)
        wrong = contract().answer_problems(request.operation, request.path, answer.status, answer.body)
        if wrong:
            self._violated(incoming, answer, *(f"the fake's own answer: {text}" for text in wrong))
        return answer

    def _violated(self, incoming: _Incoming, answer: Answer, *problems: str | Problem) -> Answer:
        for problem in problems:
            text = problem if isinstance(problem, str) else f"{problem.field}: {problem.message}"
            self._violations.append(f"{incoming.call.method} {incoming.call.path}: {text}")
        return answer


@dataclass(frozen=True, slots=True)
class _Incoming:
    call: Call
    query: str
    body: bytes
    content_type: str
    host: str
    malformed: str | None


def _page_problems(query: dict[str, str]) -> list[str]:
    size, page = int(query.get("per_page", 1)), int(query.get("page", 1))
    problems = [] if 1 <= size <= MOST_PER_PAGE else [f"per_page: {size} is not from 1 to {MOST_PER_PAGE}"]
    return problems if page >= 1 else [*problems, f"page: {page} is less than 1"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], hub: FakeGitHub) -> None:
        self.hub = hub
        self._connections: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        # Threads that wait for the next request of a connection wake up and end.
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        # Clients that have given up are no news; a defect of the fake is one.
        if not isinstance(error, ConnectionError | TimeoutError):
            self.hub.note_defect(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    # A second packet would wait for the client's acknowledgement of the first, which is delayed by 40 ms. Small answers
    # are one packet.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        answer, fault = self.server.hub.answer(self._incoming())
        if fault is not None and fault.until is not None:
            fault.until.wait(60)
        in_time = fault is None or not fault.delay or self.server.hub.wait(fault.delay)
        if answer is None or not in_time:
            self.close_connection = True
            return
        data, kind = _encoded(answer.body)
        self.send_response(answer.status)
        headers = {
            "Content-Type": kind,
            "X-GitHub-Media-Type": "github.v3; format=json",
            "X-GitHub-Request-Id": "C0DE:1234:5678",
            "X-RateLimit-Limit": "1000",
            "X-RateLimit-Remaining": "999",
            "X-RateLimit-Used": "1",
            "X-RateLimit-Reset": "1793620800",
            "X-RateLimit-Resource": "core",
        }
        given = {name.lower() for name in answer.headers}
        for name, value in headers.items():
            if name.lower() not in given:
                self.send_header(name, value)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if answer.status != 204:
            self.wfile.write(data)
        self.wfile.flush()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815 - the base class's names

    def _incoming(self) -> _Incoming:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = re.fullmatch(r"(?i:token|bearer) (\S+)", self.headers.get("Authorization") or "")
        parsed, malformed = None, None
        if body:
            try:
                parsed = json.loads(body)
            except ValueError as error:
                malformed = f"the body is not JSON: {error}"
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return _Incoming(
            Call(self.command, parts.path, query, parsed, given[1] if given else None),
            parts.query,
            body,
            self.headers.get("Content-Type") or "",
            f"http://{self.headers.get('Host')}",
            malformed,
        )


def _encoded(body: Any) -> tuple[bytes, str]:
    if isinstance(body, str):
        return body.encode(), "text/html; charset=utf-8"
    if isinstance(body, bytes):
        return body, "text/html; charset=utf-8"
    return json.dumps({} if body is None else body).encode(), "application/json; charset=utf-8"
