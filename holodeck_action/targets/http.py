"""Targets that are an HTTP service: one POST with JSON per turn."""

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
from holodeck_action.llm.limits.pauses import detach_limits
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.hosts import is_loopback, url_without_secrets
from holodeck_action.suite.model.targets import HttpTarget
from holodeck_action.suite.values import Case
from holodeck_action.targets.protocol import Agent, Conversation, Reply
from holodeck_action.targets.reply import REPLY_KEYS, ReplyEntries, missing_facts, reply_from_mapping
from holodeck_action.targets.shapes import without_unknown
from holodeck_action.targets.streams import DONE, EventParser, StreamedReply
from holodeck_action.targets.templates.computation_pool import ComputationPool
from holodeck_action.targets.templates.jsonpaths import outline
from holodeck_action.targets.templates.templates import RequestTemplate
from holodeck_action.targets.traced_session import TracedSession
from holodeck_action.targets.warm_up import await_warm_up, warm_up_request
from holodeck_action.text.foreign import Foreign, ForeignError, Redact
from holodeck_action.text.json_values import JSON_EXPANSION
from holodeck_action.text.plain import MARGIN
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    import httpx2

    from holodeck_action.targets.spans import ConversationSpans, Listener

_RESERVED_HEADERS = frozenset({"content-length", "transfer-encoding", "connection"})

_ERROR_BODY_BYTES = 8192 + MARGIN
"""Maximum bytes that are read of the body of an error response."""

_MAPPING_NAME = "the target's response mapping"

_ERROR_BODY_S = 2.0
"""Maximum seconds to wait for the body of an error response; the status is already known."""


class HttpAgent(Agent):
    """Calls a service by POST, once per turn.

    Without a `request` mapping, the body is the request (see `Conversation.request`). Without a `response` mapping, the
    answer must be a reply object or a JSON string. Every conversation has its own id and cookies. Redirects are not
    followed, and requests are not retried. Proxies of the environment are used, except for loopback addresses. The
    caller limits the time of a turn.
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
            target: the validated target; its header values are secrets, which messages never contain.
            max_bytes: maximum bytes of UTF-8 in one reply. A body may be larger, because JSON escapes characters.
            environ: the job's environment, for the process that evaluates the mappings.
            redact: removes the run's secrets from the service's error messages.
            warm_up: input of the warm-up request before the first turn of the run; None if there is no warm-up.
            listener: receives the spans of the service; None if spans are off.

        Raises:
            TargetError: a header or template is invalid.
        """
        self._url = target.url
        self._public_url = url_without_secrets(target.url)
        self._headers = {name: value.get_secret_value() for name, value in target.headers.items()}
        for name, value in self._headers.items():
            check_header(name, value, reserved=_RESERVED_HEADERS)
        self._redact_run_secrets = redact
        self._redact_target_secrets = Redactor(_repeatable_secrets(target.url, self._headers)).text
        # The mapping is only checked here; it is evaluated in a process with limits.
        if target.request is not None:
            RequestTemplate(target.request)
        response = None if target.response is None else target.response.model_dump(exclude_none=True)
        self._request_mapping = None if target.request is None else json.dumps(target.request)
        self._response_mapping = None if response is None else json.dumps(response)
        self._delta_path = None if response is None else response.get("delta")
        self._computation_pool = ComputationPool(environ, self._redact)
        mapped = frozenset(REPLY_KEYS if response is None else response)
        if "delta" in mapped:
            mapped |= {"first_token_ms"}
        if listener is not None:
            mapped |= {"tool_invocations", "usage"}
        self._listener = listener
        self.unreported = missing_facts(mapped, "the target's response does not map {}")
        self._max_bytes = max_bytes
        self._warm_up = warm_up
        self._warm_up_task: asyncio.Task[None] | None = None
        self._client: httpx2.AsyncClient | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the received spans, one sentence each."""
        return () if self._listener is None else self._listener.notices

    async def open(self, case: Case, trial: int) -> HttpSession:
        """Return a new conversation; nothing is sent yet."""
        import httpx2

        conversation, spans = Conversation(case, trial), None
        if self._listener is not None:
            spans = await self._listener.open(conversation.session, has_receiver_url=False)
        if self._client is None:
            self._client = httpx2.AsyncClient(
                headers={
                    "accept": "application/json, text/event-stream",
                    "accept-encoding": "identity",
                    "content-type": "application/json",
                    "user-agent": f"holodeck-action/{__version__}",
                    **{name.lower(): value for name, value in self._headers.items()},
                },
                # The shared client keeps no cookies: they belong to a conversation.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                timeout=None,
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=None),
                trust_env=not is_loopback((urlsplit(self._url).hostname or "").rstrip(".")),
            )
        return HttpSession(self, conversation, httpx2.Cookies(), spans)

    async def close(self) -> None:
        """Close the connections."""
        if self._warm_up_task is not None:
            self._warm_up_task.cancel()
            await asyncio.gather(self._warm_up_task, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
            self._client = None
        await self._computation_pool.close()
        if self._listener is not None:
            await self._listener.close()

    async def prepare(self) -> None:
        """Start the process that evaluates the mappings, if the target has any, and send the warm-up request once.

        Raises:
            AgentError: the process cannot be started (`cannot_start`), or the warm-up failed.
        """
        for function, mapping in (
            ("render_request", self._request_mapping),
            ("extract_reply", self._response_mapping),
            ("extract_streamed_reply", self._delta_path),
        ):
            if mapping is not None:
                await self._computation_pool.start(function)
        if self._warm_up is not None:
            if self._warm_up_task is None:
                self._warm_up_task = asyncio.create_task(self._run_warm_up(warm_up_request(self._warm_up)))
            # Shielded, because all conversations wait for the same warm-up.
            await asyncio.shield(self._warm_up_task)

    async def _run_warm_up(self, request: Mapping[str, Any]) -> None:
        import httpx2

        detach_limits()
        await await_warm_up(self.send_request(request, httpx2.Cookies()))

    async def send_request(self, request: Mapping[str, Any], cookies: httpx2.Cookies) -> Reply:
        """Send the request of a turn and return the reply.

        Args:
            request: see `Conversation.request`.
            cookies: the conversation's cookies; they are updated.

        Raises:
            AgentError: the body cannot be rendered (see `_render_body`), or there is no reply (see `_post`).
        """
        traceparent = request.get("traceparent")
        headers = {} if traceparent is None else {"traceparent": traceparent}
        return await self._post(await self._render_body(request), cookies, headers)

    async def _render_body(self, request: Mapping[str, Any]) -> bytes:
        """Return the body of the HTTP request for one turn, rendered by the `request` mapping if there is one.

        Raises:
            AgentError: `bad_request`: a template has no value for this turn, or takes too long to render.
        """
        if self._request_mapping is None:
            return json.dumps(request).encode()
        variables = {
            "turn": {key: request[key] for key in ("input", "files", "turn_config")} | {"index": request["turn"]},
            "case": {"id": request["case"], "name": request["name"], "tags": request["tags"]},
            "session": {key: request[key] for key in ("trial", "seed")} | {"id": request["session"]},
            "history": request["messages"][:-1],
        }
        args = {"mapping": self._request_mapping, "variables": variables}
        body: str = await self._computation_pool.call(
            "render_request", args, label="target request", code="bad_request"
        )
        return body.encode()

    async def _post(self, body: bytes, cookies: httpx2.Cookies, headers: Mapping[str, str]) -> Reply:
        """Send one request and return the reply.

        Raises:
            AgentError: `connect`, `disconnected`, `http_status`, `bad_reply`, `too_large`.
        """
        import httpx2

        assert self._client is not None
        sent_at = asyncio.get_running_loop().time()
        try:
            request = self._client.build_request("POST", self._url, content=body, headers=headers)
            cookies.set_cookie_header(request)
            response = await self._client.send(request, stream=True)
            try:
                cookies.extract_cookies(response)
                if not response.is_success:
                    raise await self._status_error(response)
                if _is_stream(response):
                    return await self._read_stream(response, sent_at)
                answered = await self._read_body(response)
            finally:
                await response.aclose()
        except httpx2.ConnectError as error:
            raise self._make_error(f"cannot be reached: {self._redact_and_shorten(str(error))}", "connect") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            # Messages of protocol errors may quote the request, including header values.
            raise self._make_error(f"closed the connection early ({type(error).__name__})", "disconnected") from None
        return await self._read_reply(answered)

    async def _read_body(self, response: httpx2.Response) -> Foreign:
        body = Foreign(b"".join([part async for part in self._body_parts(response)]))
        text = body.lossy_text().lstrip()
        if not text:
            raise self._make_error(f"answered {response.status_code} without a body", "bad_reply")
        if text.startswith("<"):
            raise self._make_error(
                f"answered HTML or XML instead of JSON: {body.short_line(self._redact)}", "bad_reply"
            )
        return body

    async def _body_parts(self, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        """Yield the decompressed body in parts.

        Raises:
            AgentError: `too_large` if the body exceeds the limit before or after decompression; `bad_reply` if it
                cannot be decompressed.
        """
        limit = self._max_bytes * JSON_EXPANSION
        unpacker = self._make_decompressor(response.headers.get("content-encoding", "identity").strip().lower())
        unpacked = received = 0
        async with aclosing(response.aiter_raw()) as chunks:
            async for chunk in chunks:
                received += len(chunk)
                try:
                    part = chunk if unpacker is None else unpacker.decompress(chunk, limit + 1 - unpacked)
                except zlib.error:
                    raise self._make_error("answered with a broken compressed body", "bad_reply") from None
                unpacked += len(part)
                if unpacked > limit or received > limit:
                    raise self._make_error(
                        f"answered with more than {limit} bytes (see limits.max_response_bytes); "
                        "the connection was closed",
                        "too_large",
                    )
                yield part
        if unpacker is not None and not unpacker.eof:
            raise self._make_error("answered with an incomplete compressed body", "bad_reply")

    async def _read_stream(self, response: httpx2.Response, sent_at: float) -> Reply:
        """Read server-sent events until the reply is complete, and return it.

        Args:
            response: the response with the events.
            sent_at: time when the request was sent, by the event loop's clock.

        Raises:
            AgentError: see `_post`.
        """
        events: list[tuple[float, str]] = []
        streamed, reply = StreamedReply(self._max_bytes), None
        ended = False
        async with aclosing(self._event_data(response)) as received:
            async for data in received:
                after_ms = 1000 * (asyncio.get_running_loop().time() - sent_at)
                ended = data == DONE
                if self._response_mapping is None and not ended:
                    reply = self._add_event(streamed, data, after_ms)
                elif not ended:
                    events.append((after_ms, data))
                if ended or reply is not None:
                    break
        if self._response_mapping is not None:
            return await self._map_stream(events)
        if reply is None and not (ended and streamed.has_begun):
            raise self._make_error(f"ended its stream without a reply or {DONE}", "disconnected")
        return reply or streamed.finish({})

    async def _event_data(self, response: httpx2.Response) -> AsyncGenerator[str, None]:
        parser = EventParser()
        async with aclosing(self._body_parts(response)) as parts:
            async for part in parts:
                for data in parser.feed(part):
                    yield data

    def _add_event(self, streamed_reply: StreamedReply, data: str, after_ms: float) -> Reply | None:
        value = self._parse(Foreign.of_text(data), "an event")
        try:
            return streamed_reply.feed(value, after_ms)
        except AgentError as error:
            raise self._unusable_error(error, ()) from None

    async def _map_stream(self, events: Sequence[tuple[float, str]]) -> Reply:
        """Return the reply that the `response` mapping extracts from events, each with its time in ms and its data."""
        values = [self._parse(Foreign.of_text(data), "an event") for _, data in events]
        args = {"mapping": self._response_mapping, "bodies": [data for _, data in events]}
        try:
            found = await self._computation_pool.call(
                "extract_streamed_reply", args, label=_MAPPING_NAME, code="bad_reply"
            )
            reply = reply_from_mapping(without_unknown(found["reply"], ReplyEntries), max_bytes=self._max_bytes)
        except AgentError as error:
            raise self._unusable_error(error, values) from None
        if reply.first_token_ms is not None or found["first"] is None:
            return reply
        return replace(reply, first_token_ms=events[found["first"]][0])

    def _make_decompressor(self, encoding: str) -> zlib._Decompress | None:
        if encoding in ("", "identity"):
            return None
        if encoding in ("gzip", "x-gzip", "deflate"):
            return zlib.decompressobj(zlib.MAX_WBITS | 32)
        raise self._make_error(
            f"answered with content-encoding {self._redact_and_shorten(encoding, 40)}, which was not requested",
            "bad_reply",
        )

    async def _status_error(self, response: httpx2.Response) -> AgentError:
        status = response.status_code
        data, unfinished = bytearray(), True
        try:
            async with asyncio.timeout(_ERROR_BODY_S), aclosing(response.aiter_raw()) as chunks:
                async for chunk in chunks:
                    data += chunk[:_ERROR_BODY_BYTES]
                    if len(data) >= _ERROR_BODY_BYTES:
                        break
                else:
                    unfinished = False
        except TimeoutError:
            pass
        sentence = f"answered with status {status}"
        if response.has_redirect_location:
            sentence += " (redirects are not followed: give the final URL as target)"
        body = Foreign(bytes(data[:_ERROR_BODY_BYTES]), unfinished=unfinished).short_line(self._redact)
        context: dict[str, object] = {"status": status}
        if body:
            sentence += f": {body}"
            context["body"] = body
        return self._make_error(sentence, "http_status", context)

    async def _read_reply(self, body: Foreign) -> Reply:
        answered = value = self._parse(body, "a body")
        try:
            if self._response_mapping is not None:
                args = {"mapping": self._response_mapping, "body": body.lossy_text()}
                # Entries that the reply format does not have are ignored.
                value = without_unknown(
                    await self._computation_pool.call("extract_reply", args, label=_MAPPING_NAME, code="bad_reply"),
                    ReplyEntries,
                )
            return reply_from_mapping(value, max_bytes=self._max_bytes)
        except AgentError as error:
            raise self._unusable_error(error, [answered]) from None

    def _parse(self, body: Foreign, label: str) -> Any:
        try:
            return body.lossy_json()
        except ForeignError as error:
            raise self._make_error(
                f"answered with {label} that is not JSON ({error}): {body.short_line(self._redact)}", "bad_reply"
            ) from None

    def _unusable_error(self, error: AgentError, bodies: Sequence[object]) -> AgentError:
        """Return the error of a turn whose answer is no reply; with a `response` mapping, with what the answer has."""
        sentence = f"gave no usable answer: {error.message}"
        if self._response_mapping is not None and error.code == "bad_reply":
            sentence += f"; the answer has {self._redact_and_shorten(outline(bodies), 300)}"
        return self._make_error(sentence, error.code, error.context)

    def _redact(self, text: str) -> str:
        """Remove the run's secrets, and secrets in the target's headers and URL, from a text."""
        return self._redact_target_secrets(self._redact_run_secrets(text))

    def _redact_and_shorten(self, text: str, limit: int = 200) -> str:
        return Foreign.of_text(text).short_line(self._redact, limit)

    def _make_error(self, sentence: str, code: str, context: Mapping[str, object] | None = None) -> AgentError:
        return AgentError(self._redact(f"{self._public_url} {sentence}"), code, dict(context or {}))


class HttpSession(TracedSession):
    """A conversation with the service."""

    def __init__(
        self, agent: HttpAgent, conversation: Conversation, cookies: httpx2.Cookies, spans: ConversationSpans | None
    ) -> None:
        super().__init__(conversation, spans)
        self._agent = agent
        self._cookies = cookies

    async def prepare(self) -> None:
        """Start the process that evaluates the mappings, and send the warm-up request once per run."""
        await self._agent.prepare()

    async def _send_request(self, request: Mapping[str, Any]) -> Reply:
        return await self._agent.send_request(request, self._cookies)


def _is_stream(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


def _repeatable_secrets(url: str, headers: Mapping[str, str]) -> set[str]:
    """Return the secrets in a target's URL and headers, which the service may repeat in its answers.

    They are header values, the user and password of the URL, and the values of its query.
    """
    secrets = {value for _, value in parse_qsl(urlsplit(url).query)}
    for value in headers.values():
        _, _, credential = value.strip().partition(" ")
        secrets |= {value.strip(), credential.strip()}
    user, password = unquote(urlsplit(url).username or ""), unquote(urlsplit(url).password or "")
    if user or password:
        secrets |= {password, base64.b64encode(f"{user}:{password}".encode()).decode()}
    return secrets
