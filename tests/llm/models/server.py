"""The fake's server: takes a request, decides what it meets, keeps what has happened."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tests.llm.models import contract, errors, rules
from tests.llm.models.connection import Connection, Incoming, Outgoing, Send
from tests.llm.models.routes import Dialect, find, headers_of
from tests.llm.models.shapes import encoded
from tests.llm.models.tokens import completion_tokens
from tests.llm.models.tokens import split as split_tokens
from tests.llm.models.values import Answer, Fault, Operation, Provider, Reply, Request, Rule

NO_ANSWER = 0
"""What `statuses` counts where the connection broke, or the client left, before a status was sent."""

_POLL = 0.002


@dataclass(slots=True)
class _Gate:
    """How many calls of an account may be under way, and how many it answers a second."""

    most: int | None
    retry_after: str | None = None
    per_second: int | None = None
    answered: deque[float] = field(default_factory=deque)

    def refuses(self, under_way: int, now: float) -> bool:
        """Tell whether a call is too much; one that is not counts."""
        while self.answered and now - self.answered[0] > 1:
            self.answered.popleft()
        if self.most is not None and under_way >= self.most:
            return True
        if self.per_second is not None and len(self.answered) >= self.per_second:
            return True
        self.answered.append(now)
        return False


class FakeModels:
    """OpenAI, Azure OpenAI, Anthropic (one port) and Ollama (another) from `with FakeModels() as models` to its end.

    Without `with`, `memory.InMemory` brings requests to them.

    Args:
        keys: the keys that are accepted; None: any. Ollama asks for none.
        models: the models that exist; None: all.
        latency: seconds until an answer, or a function of the request.
    """

    def __init__(
        self,
        *,
        keys: Iterable[str] | None = None,
        models: Iterable[str] | None = None,
        latency: float | Callable[[Request], float] = 0.0,
    ) -> None:
        self.latency = latency
        self.lingering = False
        """Whether a call goes on, and counts at its limit, after its client has left: as at a real provider."""
        self._keys = None if keys is None else frozenset(keys)
        self._models = None if models is None else frozenset(models)
        self._rule: Rule = rules.echo
        self._script: deque[Reply] | None = None
        self._faults: list[_Ordered] = []
        self._gates: dict[str | None, _Gate] = {}
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._violations: list[str] = []
        self._statuses: Counter[int] = Counter()
        self._under_way: Counter[str | None] = Counter()
        self._peaks: Counter[str | None] = Counter()
        self._total = self._peak = self._abandoned = 0
        self._held: asyncio.Event | None = None
        self._connections: set[Connection] = set()
        self._opened = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ports: tuple[int, int] = (8000, 11434)

    def __enter__(self) -> FakeModels:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(60), "the fake model server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop answering; calls that are under way end without an answer."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop = self._thread = None

    @property
    def url(self) -> str:
        """Where OpenAI, Azure OpenAI and Anthropic answer; the endpoint of an Azure resource, Anthropic's base URL."""
        return f"http://127.0.0.1:{self._ports[0]}"

    @property
    def openai_url(self) -> str:
        """OpenAI's base URL."""
        return f"{self.url}/v1"

    @property
    def azure_url(self) -> str:
        """The endpoint of the Azure resource, without `/openai`."""
        return self.url

    @property
    def anthropic_url(self) -> str:
        """Anthropic's base URL, without `/v1`."""
        return self.url

    @property
    def ollama_url(self) -> str:
        """Ollama's host: `/api` for its own interface, `/v1` for the one like OpenAI's."""
        return f"http://127.0.0.1:{self._ports[1]}"

    def answer(self, rule: Rule) -> None:
        """Answer by a rule from now on (called in the server's thread; it may give a Fault)."""
        self._rule = rule

    def script(self, replies: Iterable[Reply]) -> None:
        """Answer with these, one a request in the order of arrival; a request more is a violation and status 500."""
        self._script = deque(replies)

    def fail(self, *faults: Fault) -> None:
        """Order faults: each waits behind those ordered before, and the first that is about a request is met."""
        with self._lock:
            self._faults += [_Ordered(fault, fault.times) for fault in faults]

    def heal(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._faults.clear()

    def limit(
        self,
        most: int | None = None,
        *,
        per_second: int | None = None,
        key: str | None = None,
        retry_after: str | None = None,
    ) -> None:
        """Answer 429, at once, to too many calls of one key, or of each key that has no limit itself.

        Args:
            most: calls that may be under way at once.
            per_second: calls that are answered within a second.
            key: whose; None for each without its own limit.
            retry_after: header of the refusals.
        """
        self._gates[key] = _Gate(most, retry_after, per_second)

    def hold(self) -> None:
        """Let calls that are admitted wait, without an answer, until `release`: what is at once is at once for sure."""
        self._held = asyncio.Event()

    def release(self) -> None:
        """Answer the calls that are held, and those to come."""
        held, self._held = self._held, None
        if held is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(held.set)

    def wait_for(self, state: Callable[[FakeModels], bool], seconds: float = 60.0) -> None:
        """Wait, in a thread that serves no client, until a state is reached.

        Raises:
            TimeoutError: it was not reached in time.
        """
        until = time.monotonic() + seconds
        while not state(self):
            if time.monotonic() > until:
                raise TimeoutError(f"not reached: {len(self._requests)} requests, {self._total} under way")
            time.sleep(_POLL)

    @property
    def requests(self) -> list[Request]:
        """All requests so far, also those that met a fault."""
        return list(self._requests)

    @property
    def violations(self) -> list[str]:
        """What broke a provider's description of its API, and defects of the fake: a sentence each."""
        return list(self._violations)

    def take_violations(self) -> list[str]:
        """Return the violations and forget them: for tests that mean them."""
        with self._lock:
            taken, self._violations = self._violations, []
            return taken

    @property
    def statuses(self) -> Counter[int]:
        """How often each status was answered; see NO_ANSWER."""
        return Counter(self._statuses)

    @property
    def abandoned(self) -> int:
        """How many calls the client left before their answer."""
        return self._abandoned

    @property
    def connections(self) -> int:
        """How many connections have been opened."""
        return self._opened

    @property
    def under_way(self) -> int:
        """How many calls are being answered now."""
        return self._total

    @property
    def peak(self) -> int:
        """Most calls under way at once, those answered 429 at the limit not counted."""
        return self._peak

    def peak_of(self, key: str | None) -> int:
        """Most calls of one key under way at once."""
        return self._peaks[key]

    def count(
        self, provider: Provider | None = None, *, key: str | None = None, operation: Operation | None = None
    ) -> int:
        """Return how many requests came: of one provider, of one key, of one kind."""
        return sum(
            (provider is None or request.provider == provider)
            and (key is None or request.key == key)
            and (operation is None or request.operation == operation)
            for request in self._requests
        )

    def _run(self, ready: threading.Event) -> None:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            servers = [runner.run(self._listen(ollama)) for ollama in (False, True)]
            first, second = (server.sockets[0].getsockname()[1] for server in servers)
            self._ports, self._loop = (first, second), loop
            ready.set()
            loop.run_forever()
            for server in servers:
                server.close()
            runner.run(self._end())

    async def _end(self) -> None:
        # Who was let in at this moment is a task that makes a connection.
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for connection in list(self._connections):
                connection.abort()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        while self._connections:
            for connection in list(self._connections):
                connection.abort()
            await asyncio.sleep(0)

    async def _listen(self, ollama: bool) -> asyncio.Server:
        def connection() -> Connection:
            self._opened += 1
            return Connection(lambda incoming, send: self.respond(incoming, send, ollama), self._connections)

        return await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0, backlog=1024)

    async def respond(self, incoming: Incoming, send: Send, ollama: bool) -> None:
        """Answer a request by one call of `send`, in the time of the running loop."""
        answered = False

        async def counted(outgoing: Outgoing) -> None:
            nonlocal answered
            answered = True
            self._statuses[NO_ANSWER if outgoing.wire in ("reset", "close") else outgoing.status] += 1
            await send(outgoing)

        try:
            await self._answered(incoming, counted, ollama)
        except asyncio.CancelledError:
            self._abandoned += 1
            if not answered:
                self._statuses[NO_ANSWER] += 1
            raise
        except Exception as error:
            self._violations.append(f"the fake failed: {error!r}")
            await counted(Outgoing(500, body=b"the fake failed"))

    async def _answered(self, incoming: Incoming, send: Send, ollama: bool) -> None:
        found = find(incoming, ollama)
        if isinstance(found, errors.Refusal):
            self._violations.append(f"{incoming.method} {incoming.path}: no such call")
            await send(_refused(found))
            return
        dialect, request = found, found.read(incoming, len(self._requests))
        self._requests.append(request)
        gate = self._gates.get(request.key) or self._gates.get(None)
        if gate is not None and gate.refuses(self._under_way[request.key], request.time):
            fault = Fault("rate_limit", retry_after=gate.retry_after)
            await send(self._troubled(dialect, request, fault, Answer()))
            return
        self._enter(request.key)
        begun = asyncio.get_running_loop().time()
        try:
            await send(await self._admitted(dialect, request))
        except asyncio.CancelledError:
            if self.lingering:
                rest = self._latency_of(request) - (asyncio.get_running_loop().time() - begun)
                asyncio.get_running_loop().call_later(max(0.0, rest), self._leave, request.key)
            else:
                self._leave(request.key)
            raise
        except BaseException:
            self._leave(request.key)
            raise
        self._leave(request.key)

    def _enter(self, key: str | None) -> None:
        self._under_way[key] += 1
        self._total += 1
        self._peaks[key] = max(self._peaks[key], self._under_way[key])
        self._peak = max(self._peak, self._total)

    def _leave(self, key: str | None) -> None:
        self._under_way[key] -= 1
        self._total -= 1

    def _latency_of(self, request: Request) -> float:
        return self.latency(request) if callable(self.latency) else self.latency

    async def _admitted(self, dialect: Dialect, request: Request) -> Outgoing:
        refused = self._judged(request)
        if refused is not None:
            return _refused(refused, request)
        fault = self._fault(request)
        replaced = fault is not None and (fault.error is not None or fault.status is not None)
        reply = Answer() if replaced else self._reply(request)
        if isinstance(reply, Fault):
            fault, reply = reply, rules.echo(request)
        answer = _cut(rules.answer_of(reply), contract.most_tokens(request))
        latency = self._latency_of(request)
        latency += fault.delay if fault is not None else 0.0
        if latency:
            await asyncio.sleep(latency)
        if self._held is not None:
            await self._held.wait()
        if fault is None:
            return _told(dialect, request, answer)
        return self._troubled(dialect, request, fault, answer)

    def _judged(self, request: Request) -> errors.Refusal | None:
        if request.provider != "ollama" and not request.key:
            return contract.without_key(request)
        if request.provider != "ollama" and self._keys is not None and request.key not in self._keys:
            return errors.refusal("bad_key", request)
        problem = contract.problem(request)
        if problem is not None:
            if not problem.expected:
                self._violations.append(f"{request.provider} {request.path}: {problem.text}")
            return problem.refusal(request)
        if self._models is not None and request.model not in self._models:
            return errors.refusal("unknown_model", request)
        return None

    def _fault(self, request: Request) -> Fault | None:
        with self._lock:
            for ordered in self._faults:
                if ordered.left != 0 and ordered.fault.about(request):
                    if ordered.left is not None:
                        ordered.left -= 1
                    return ordered.fault
        return None

    def _reply(self, request: Request) -> Reply:
        if self._script is None:
            return self._rule(request)
        if self._script:
            return self._script.popleft()
        self._violations.append(f"{request.provider} {request.path}: the script has no answer left for this request")
        return Fault("server_error")

    def _troubled(self, dialect: Dialect, request: Request, fault: Fault, answer: Answer) -> Outgoing:
        hints = {"retry-after": fault.retry_after, "retry-after-ms": fault.retry_after_ms}
        headers = {name: value for name, value in hints.items() if value is not None} | dict(fault.headers)
        if fault.error is not None:
            refused = errors.refusal(fault.error, request)
            if fault.streamed and request.stream:
                body = refused.body if isinstance(refused.body, Mapping) else {"error": {"message": refused.body}}
                return Outgoing(200, headers_of(request, dialect.stream_type), dialect.stream(request, answer, body))
            return _refused(errors.Refusal(refused.status, refused.body, {**refused.headers, **headers}), request)
        if fault.status is not None:
            own = fault.body if isinstance(fault.body, bytes | str) else encoded(fault.body)
            data = own.encode() if isinstance(own, str) else own
            return Outgoing(fault.status, {**headers_of(request), **headers}, data)
        told = _told(dialect, request, answer)
        return Outgoing(told.status, {**told.headers, **headers}, told.body, told.pause, fault.wire)


@dataclass(slots=True)
class _Ordered:
    fault: Fault
    left: int | None


def _told(dialect: Dialect, request: Request, answer: Answer) -> Outgoing:
    if request.stream:
        headers = headers_of(request, dialect.stream_type) | dict(answer.headers)
        return Outgoing(200, headers, dialect.stream(request, answer, None), answer.pause)
    return Outgoing(200, headers_of(request) | dict(answer.headers), encoded(dialect.whole(request, answer)))


def _refused(refused: errors.Refusal, request: Request | None = None) -> Outgoing:
    body = refused.body.encode() if isinstance(refused.body, str) else json.dumps(refused.body).encode()
    common = headers_of(request) if request is not None else {"content-type": "application/json"}
    return Outgoing(refused.status, common | dict(refused.headers), body)


def _cut(answer: Answer, most: int | None) -> Answer:
    """Return an answer as a limit of tokens leaves it: text is cut; tool calls and refusals stay whole."""
    if most is None or answer.finish is not None or answer.tools or answer.completion_tokens is not None:
        return answer
    if completion_tokens(answer) <= most:
        return answer
    return replace(answer, text="".join(split_tokens(answer.text)[:most]), finish="length")
