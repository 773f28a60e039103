"""Agents that are an HTTP service: one POST of JSON per turn."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.llm.headers import check_header
from holodeck_action.llm.limits.pauses import apart
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.hosts import is_loopback, shown_url
from holodeck_action.suite.model.targets import HttpTarget
from holodeck_action.suite.values import Case
from holodeck_action.targets.protocol import Conversation, Reply
from holodeck_action.targets.reply import REPLY, REPLY_KEYS, reply_from_mapping, untold_without
from holodeck_action.targets.streams import DONE, EventParser, Pieces
from holodeck_action.targets.templates.computing import Computing
from holodeck_action.targets.templates.jsonpaths import ReplyPaths
from holodeck_action.targets.templates.templates import RequestTemplate
from holodeck_action.targets.traced_session import TracedSession
from holodeck_action.targets.warm_up import warm_up_request, warmed_up
from holodeck_action.text.foreign import Foreign, ForeignError, Redact
from holodeck_action.text.json_values import JSON_EXPANSION
from holodeck_action.text.plain import MARGIN
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    import httpx2

    from holodeck_action.extensions.frameworks.spans.listening import Listener, Listening

_FRAMING = frozenset({"content-length", "transfer-encoding", "connection"})

_ERROR_BODY = 8192 + MARGIN
"""Bytes of an error's body that are read for its words."""

_MAPPING = "the target's response mapping"

_ERROR_BODY_S = 2.0
"""How long an error's body is waited for: its status says the most."""


class HttpAgent:
    """Asks a service by POST, once per turn.

    Without a `request` mapping the body is the request (see `Conversation.request`), without a `response` mapping the
    answer is the reply mapping or a JSON text. Every conversation has an id of its own and its own cookies. Redirects
    are not followed and nothing is tried twice. Proxies come from the environment, never for a loopback address. There
    is no time limit here but the caller's.
    """

    def __init__(
        self,
        target: HttpTarget,
        max_bytes: int,
        environ: Mapping[str, str],
        redact: Redact,
        warm_up: str | None = None,
        listener: Listener | None = None,
    ) -> None:
        """Compile the mappings and check the headers.

        Args:
            target: the validated target; its header values are secrets and appear in no message.
            max_bytes: most bytes of UTF-8 in one reply; a body may take what JSON needs to write so much.
            environ: the job's environment, for the process that computes requests and replies.
            redact: removes the run's secrets from what the service says of its trouble.
            warm_up: what the service is asked before the first turn of all; None for nothing.
            listener: receives the spans of the service; None where nobody reads them.

        Raises:
            TargetError: a header, a template or a path cannot be used.
        """
        self._url = target.url
        self._shown = shown_url(target.url)
        self._headers = {name: value.get_secret_value() for name, value in target.headers.items()}
        for name, value in self._headers.items():
            check_header(name, value, reserved=_FRAMING)
        self._of_the_run = redact
        self._of_the_target = Redactor(_secrets(target.url, self._headers)).text
        # Both are only compiled here: whatever they compute, they compute in a process with limits.
        if target.request is not None:
            RequestTemplate(target.request)
        response = None if target.response is None else target.response.model_dump()
        if response is not None:
            ReplyPaths(response)
        self._request = None if target.request is None else json.dumps(target.request)
        self._response = None if response is None else json.dumps(response)
        self._delta = None if response is None else response["delta"]
        self._computing = Computing(environ, self._redact)
        mapped = frozenset(REPLY_KEYS if response is None else (key for key, path in response.items() if path))
        if "delta" in mapped:
            mapped |= {"first_token_ms"}
        if listener is not None:
            mapped |= {"tool_invocations", "usage"}
        self._listener = listener
        self.untold = untold_without(mapped, "the target's response maps no {}")
        self._max_bytes = max_bytes
        self._warm_up = warm_up
        self._warming: asyncio.Task[None] | None = None
        self._client: httpx2.AsyncClient | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """What the reader should know of the spans."""
        return () if self._listener is None else self._listener.notices

    async def open(self, case: Case, trial: int) -> HttpSession:
        """Start a conversation; nothing is sent yet."""
        import httpx2

        conversation, listening = Conversation(case, trial), None
        if self._listener is not None:
            listening = await self._listener.open(conversation.session, addressed=False)
        if self._client is None:
            self._client = httpx2.AsyncClient(
                headers={
                    "accept": "application/json, text/event-stream",
                    "accept-encoding": "identity",
                    "content-type": "application/json",
                    "user-agent": f"holodeck-action/{__version__}",
                    **{name.lower(): value for name, value in self._headers.items()},
                },
                # Cookies belong to one conversation: the client that all share keeps none.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                timeout=None,
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=None),
                trust_env=not is_loopback((urlsplit(self._url).hostname or "").rstrip(".")),
            )
        return HttpSession(self, conversation, httpx2.Cookies(), listening)

    async def close(self) -> None:
        """Close the connections."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
            self._client = None
        await self._computing.close()
        if self._listener is not None:
            await self._listener.close()

    async def prepare(self) -> None:
        """Start the process that computes requests and replies, where they are mapped, and warm the service up once.

        Raises:
            AgentError: `cannot_start`, or what the warm-up ended with.
        """
        for function, mapping in (("request", self._request), ("reply", self._response), ("stream", self._delta)):
            if mapping is not None:
                await self._computing.start(function)
        if self._warm_up is not None:
            if self._warming is None:
                self._warming = asyncio.create_task(self._warm(warm_up_request(self._warm_up)))
            # One conversation's deadline does not end what all of them wait for.
            await asyncio.shield(self._warming)

    async def _warm(self, request: Mapping[str, Any]) -> None:
        import httpx2

        apart()
        await warmed_up(self.ask(request, httpx2.Cookies()))

    async def ask(self, request: Mapping[str, Any], cookies: httpx2.Cookies) -> Reply:
        """Send the request of a turn and read its reply.

        Args:
            request: see `Conversation.request`.
            cookies: those of the conversation; changed.

        Raises:
            AgentError: see `_body` and `_post`.
        """
        traceparent = request.get("traceparent")
        headers = {} if traceparent is None else {"traceparent": traceparent}
        return await self._post(await self._body(request), cookies, headers)

    async def _body(self, request: Mapping[str, Any]) -> bytes:
        """Return the request body of one turn.

        Raises:
            AgentError: `bad_request`, a template has no value for this turn, or takes too much to render.
        """
        if self._request is None:
            return json.dumps(request).encode()
        variables = {
            "turn": {key: request[key] for key in ("input", "files", "turn_config")} | {"index": request["turn"]},
            "case": {"id": request["case"], "name": request["name"], "tags": request["tags"]},
            "session": {key: request[key] for key in ("trial", "seed")} | {"id": request["session"]},
            "history": request["messages"][:-1],
        }
        args = {"mapping": self._request, "variables": variables}
        body: str = await self._computing.call("request", args, what="target request", code="bad_request")
        return body.encode()

    async def _post(self, body: bytes, cookies: httpx2.Cookies, headers: Mapping[str, str]) -> Reply:
        """Send one request and read its reply.

        Raises:
            AgentError: `connect`, `disconnected`, `http_status`, `bad_reply`, `too_large`.
        """
        import httpx2

        assert self._client is not None
        asked = asyncio.get_running_loop().time()
        try:
            request = self._client.build_request("POST", self._url, content=body, headers=headers)
            cookies.set_cookie_header(request)
            response = await self._client.send(request, stream=True)
            try:
                cookies.extract_cookies(response)
                if not response.is_success:
                    raise await self._status_error(response)
                if _is_stream(response):
                    return await self._streamed(response, asked)
                answered = await self._content(response)
            finally:
                await response.aclose()
        except httpx2.ConnectError as error:
            raise self._error(f"cannot be reached: {self._words(str(error))}", "connect") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            # Texts of protocol errors may quote what was sent, header values too.
            raise self._error(f"broke off the exchange ({type(error).__name__})", "disconnected") from None
        return await self._reply(answered)

    async def _content(self, response: httpx2.Response) -> Foreign:
        body = Foreign(b"".join([part async for part in self._parts(response)]))
        text = body.lossy_text().lstrip()
        if not text:
            raise self._error(f"answered {response.status_code} without a body", "bad_reply")
        if text.startswith("<"):
            raise self._error(f"answered HTML or XML instead of JSON: {body.words(self._redact)}", "bad_reply")
        return body

    async def _parts(self, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        """Yield a body up to the bound, before and after it is unpacked."""
        limit = self._max_bytes * JSON_EXPANSION
        unpacker = self._unpacker(response.headers.get("content-encoding", "identity").strip().lower())
        unpacked = received = 0
        async with aclosing(response.aiter_raw()) as chunks:
            async for chunk in chunks:
                received += len(chunk)
                try:
                    part = chunk if unpacker is None else unpacker.decompress(chunk, limit + 1 - unpacked)
                except zlib.error:
                    raise self._error("answered with a broken compressed body", "bad_reply") from None
                unpacked += len(part)
                if unpacked > limit or received > limit:
                    raise self._error(
                        f"answered with more than {limit} bytes (see limits.max_response_bytes); "
                        "the connection was closed",
                        "too_large",
                    )
                yield part
        if unpacker is not None and not unpacker.eof:
            raise self._error("answered with a compressed body that breaks off", "bad_reply")

    async def _streamed(self, response: httpx2.Response, asked: float) -> Reply:
        """Read a stream of events to its end.

        Args:
            response: the stream.
            asked: when the turn was asked, by the loop's clock.
        """
        events: list[tuple[float, str]] = []
        pieces, reply = Pieces(self._max_bytes), None
        ended = False
        async with aclosing(self._events(response)) as received:
            async for data in received:
                after_ms = 1000 * (asyncio.get_running_loop().time() - asked)
                ended = data == DONE
                if self._response is None and not ended:
                    reply = self._taken(pieces, data, after_ms)
                elif not ended:
                    events.append((after_ms, data))
                if ended or reply is not None:
                    break
        if self._response is not None:
            return await self._mapped_stream(events)
        if reply is None and not (ended and pieces.begun):
            raise self._error(f"ended its stream without a reply or {DONE}", "disconnected")
        return reply or pieces.whole({})

    async def _events(self, response: httpx2.Response) -> AsyncGenerator[str, None]:
        parser = EventParser()
        async with aclosing(self._parts(response)) as parts:
            async for part in parts:
                for data in parser.feed(part):
                    yield data

    def _taken(self, pieces: Pieces, data: str, after_ms: float) -> Reply | None:
        value = self._parsed(Foreign.of_text(data), "an event")
        try:
            return pieces.take(value, after_ms)
        except AgentError as error:
            raise self._unusable(error) from None

    async def _mapped_stream(self, events: Sequence[tuple[float, str]]) -> Reply:
        """Read the events of a stream by the response mapping."""
        for _, data in events:
            self._parsed(Foreign.of_text(data), "an event")
        args = {"mapping": self._response, "bodies": [data for _, data in events]}
        try:
            found = await self._computing.call("stream", args, what=_MAPPING, code="bad_reply")
            reply = reply_from_mapping(REPLY.known(found["reply"]), max_bytes=self._max_bytes)
        except AgentError as error:
            raise self._unusable(error) from None
        if reply.first_token_ms is not None or found["first"] is None:
            return reply
        return replace(reply, first_token_ms=events[found["first"]][0])

    def _unpacker(self, encoding: str) -> zlib._Decompress | None:
        if encoding in ("", "identity"):
            return None
        if encoding in ("gzip", "x-gzip", "deflate"):
            return zlib.decompressobj(zlib.MAX_WBITS | 32)
        raise self._error(
            f"answered with content-encoding {self._words(encoding, 40)}, which was not asked for", "bad_reply"
        )

    async def _status_error(self, response: httpx2.Response) -> AgentError:
        status = response.status_code
        data, unfinished = bytearray(), True
        try:
            async with asyncio.timeout(_ERROR_BODY_S), aclosing(response.aiter_raw()) as chunks:
                async for chunk in chunks:
                    data += chunk[:_ERROR_BODY]
                    if len(data) >= _ERROR_BODY:
                        break
                else:
                    unfinished = False
        except TimeoutError:
            pass
        sentence = f"answered with status {status}"
        if response.has_redirect_location:
            sentence += " (redirects are not followed: give the final URL as target)"
        body = Foreign(bytes(data[:_ERROR_BODY]), unfinished=unfinished).words(self._redact)
        context: dict[str, object] = {"status": status}
        if body:
            sentence += f": {body}"
            context["body"] = body
        return self._error(sentence, "http_status", context)

    async def _reply(self, body: Foreign) -> Reply:
        value = self._parsed(body, "a body")
        try:
            if self._response is not None:
                args = {"mapping": self._response, "body": body.lossy_text()}
                # A service may tell more.
                value = REPLY.known(await self._computing.call("reply", args, what=_MAPPING, code="bad_reply"))
            return reply_from_mapping(value, max_bytes=self._max_bytes)
        except AgentError as error:
            raise self._unusable(error) from None

    def _parsed(self, body: Foreign, what: str) -> Any:
        try:
            return body.lossy_json()
        except ForeignError as error:
            raise self._error(
                f"answered with {what} that is not JSON ({error}): {body.words(self._redact)}", "bad_reply"
            ) from None

    def _unusable(self, error: AgentError) -> AgentError:
        return self._error(f"gave no usable answer: {error.message}", error.code, error.context)

    def _redact(self, text: str) -> str:
        """Remove secrets of the run, and what was sent to the service, which it may repeat."""
        return self._of_the_target(self._of_the_run(text))

    def _words(self, text: str, limit: int = 200) -> str:
        return Foreign.of_text(text).words(self._redact, limit)

    def _error(self, sentence: str, code: str, context: Mapping[str, object] | None = None) -> AgentError:
        return AgentError(self._redact(f"{self._shown} {sentence}"), code, dict(context or {}))


class HttpSession(TracedSession):
    """One conversation with the service."""

    def __init__(
        self, agent: HttpAgent, conversation: Conversation, cookies: httpx2.Cookies, listening: Listening | None
    ) -> None:
        super().__init__(conversation, listening)
        self._agent = agent
        self._cookies = cookies

    async def prepare(self) -> None:
        """Have a process ready that computes request and reply."""
        await self._agent.prepare()

    async def _ask(self, request: Mapping[str, Any]) -> Reply:
        return await self._agent.ask(request, self._cookies)


def _is_stream(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


def _secrets(url: str, headers: Mapping[str, str]) -> set[str]:
    """What a service may repeat and no message may: header values, user and password, query values."""
    secrets = {value for _, value in parse_qsl(urlsplit(url).query)}
    for value in headers.values():
        _, _, credential = value.strip().partition(" ")
        secrets |= {value.strip(), credential.strip()}
    user, password = unquote(urlsplit(url).username or ""), unquote(urlsplit(url).password or "")
    if user or password:
        secrets |= {password, base64.b64encode(f"{user}:{password}".encode()).decode()}
    return secrets
