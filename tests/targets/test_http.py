"""HTTP agents against a real service on loopback: what is sent, what is read, what goes wrong."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import threading
import uuid
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.record.record import RetrievedChunk, ToolInvocation
from holodeck_action.suite.model.cases import FileInput
from holodeck_action.suite.model.targets import HttpTarget
from holodeck_action.targets.http import HttpAgent
from holodeck_action.targets.protocol import Reply, seed_of
from tests.tables import walk
from tests.targets.conversations import MAX_BYTES, answer, ask, converse, failure, make_case, run
from tests.targets.service import Handler, Received, Service

ONE = make_case("one", name="One")
TALK = make_case("talk", "first", "second", name="Talk")


def target(url: str, **entries: Any) -> HttpTarget:
    return HttpTarget.model_validate({"type": "http", "url": url, **entries})


def agent(service: Service, *, max_bytes: int = MAX_BYTES, **entries: Any) -> HttpAgent:
    return HttpAgent(target(f"{service.url}/chat", **entries), max_bytes, os.environ, str)


Respond = Callable[[Handler, Received], None]


def always(body: Any, status: int = 200, **headers: str) -> Respond:
    return lambda handler, _: handler.answer(body, status, **headers)


# -- what is sent


def test_a_request_tells_the_whole_turn(service: Service) -> None:
    case = make_case(
        "talk", "first", "secönd", name="Talk", turn_config={"k": 1}, files=(FileInput(path="a.pdf", type="pdf"),)
    )
    service.respond = lambda handler, received: handler.answer(f"to {received.body['input']}")
    assert ask(agent(service), case, trial=2) == [Reply("to first"), Reply("to secönd")]
    first, second = service.received
    session = first.body["session"]
    assert str(uuid.UUID(session)) == session
    common = {
        "case": "talk",
        "name": "Talk",
        "trial": 2,
        "files": ["a.pdf"],
        "turn_config": {"k": 1},
        "session": session,
        "tags": [],
        "seed": seed_of("talk", 2),
    }
    assert first.path == "/chat"
    assert first.body == {"turn": 0, "input": "first", "messages": [{"role": "user", "content": "first"}], **common}
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "to first"},
        {"role": "user", "content": "secönd"},
    ]
    assert second.body == {"turn": 1, "input": "secönd", "messages": messages, **common}


@pytest.mark.proves("HttpTarget: headers")
def test_headers_are_sent(service: Service) -> None:
    answer(agent(service, headers={"Authorization": "Bearer abc", "Accept": "application/x"}), ONE)
    sent = service.received[0].headers
    assert sent["authorization"] == "Bearer abc"
    assert sent["accept"] == "application/x"
    assert sent["content-type"] == "application/json"
    assert sent["user-agent"].startswith("holodeck-action/")


@pytest.mark.proves("HttpTarget: request")
def test_a_request_mapping_shapes_the_body(service: Service) -> None:
    request = {
        "message": "{{ turn.input }}",
        "label": "{{ case.name }} ({{ case.id }}) turn {{ turn.index }} trial {{ session.trial }}",
        "index": "{{ turn.index }}",
        "negative": "{{ -turn.index - 1 }}",
        "trimmed": "{{- turn.input -}}",
        "history": "{{ history }}",
        "said": "{{ history | map(attribute='content') | list }}",
        "last": "{% for message in history %}{{ message.role }}: {{ message.content }}\n{% endfor %}",
        "config": "{{ turn.turn_config }}",
        "nested": {"list": [1, True, None, "{{ session.id }}", {"tags": "{{ case.tags }}"}]},
        "embedded": "tags={{ case.tags }}, none={{ none }}, flag={{ true }}",
        "fixed": "",
        "braces": "{{ '{{' }}",
    }
    service.respond = always("ok")
    case = make_case("talk", "{{ 7 * 7 }} {% raw %}", "two", name="Talk", turn_config={"k": [1, None]})
    assert len(ask(agent(service, request=request), case)) == 2
    first, second = (received.body for received in service.received)
    session = first["nested"]["list"][3]
    uuid.UUID(session)
    assert first == {
        "message": "{{ 7 * 7 }} {% raw %}",
        "label": "Talk (talk) turn 0 trial 0",
        "index": 0,
        "negative": -1,
        "trimmed": "{{ 7 * 7 }} {% raw %}",
        "history": [],
        "said": [],
        "last": "",
        "config": {"k": [1, None]},
        "nested": {"list": [1, True, None, session, {"tags": []}]},
        "embedded": "tags=[], none=, flag=true",
        "fixed": "",
        "braces": "{{",
    }
    assert second["history"] == [
        {"role": "user", "content": "{{ 7 * 7 }} {% raw %}"},
        {"role": "assistant", "content": "ok"},
    ]
    assert second["said"] == ["{{ 7 * 7 }} {% raw %}", "ok"]
    assert second["last"] == "user: {{ 7 * 7 }} {% raw %}\nassistant: ok\n"
    assert second["nested"]["list"][3] == session


def test_what_is_expected_of_the_agent_is_not_told_to_it(service: Service) -> None:
    case = make_case("one", ground_truth="the answer")
    error = failure(agent(service, request={"cheat": "{{ turn.ground_truth }}"}), case)
    assert error.code == "bad_request"
    assert error.message == "target request.cheat cannot be rendered: 'dict object' has no attribute 'ground_truth'"
    answer(agent(service), case)
    assert "the answer" not in str(service.received)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ turn.inputs }}", "request.x cannot be rendered: 'dict object' has no attribute 'inputs'"),
        ("say {{ turn.inputs }}", "request.x cannot be rendered: 'dict object' has no attribute 'inputs'"),
        ("{{ 1 / 0 }}", "request.x cannot be rendered: division by zero"),
        ("{{ history[5].content }}", "request.x cannot be rendered: list object has no element 5"),
        ("{{ ''.__class__.__mro__ }}", "request.x cannot be rendered: access to attribute '__class__'"),
        (
            "{{ history.append(1) }}",
            "request.x cannot be rendered: access to attribute 'append' of 'list' object is unsafe",
        ),
        ("{{ turn[range] }}", "request.x cannot be rendered: dict object has no element <function safe_range>"),
        ("{{ history | map('upper') }}", "request is not JSON: Object of type generator"),
        ("{{ 1e999 }}", "request.x cannot be rendered: name 'inf' is not defined"),
    ],
)
def test_a_template_without_a_value_is_the_error_of_the_turn(service: Service, template: str, problem: str) -> None:
    error = failure(agent(service, request={"x": template}), ONE)
    assert error.code == "bad_request"
    assert problem in error.message
    assert service.received == []


@walk(
    ("entries", "message"),
    [
        (
            {"request": {"a": ["{{ turns.input }}"]}},
            "request.a[0]: unknown variable `turns` (did you mean `turn`?)",
        ),
        ({"headers": {"X-Key": "abc\n"}}, "the value of header X-Key holds a line break or another character"),
        (
            {"headers": {"X-Key": "schlüssel"}},
            "the value of header X-Key holds a line break or another character",
        ),
        ({"headers": {"X Key": "abc"}}, "header name X Key holds characters that HTTP does not allow"),
        ({"headers": {"Content-Length": "5"}}, "header Content-Length is set by the HTTP client itself"),
    ],
)
def test_a_target_that_cannot_work_is_a_configuration_error(entries: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError) as caught:
        HttpAgent(target("http://127.0.0.1:9/", **entries), MAX_BYTES, os.environ, str)
    assert str(caught.value).startswith(message)
    assert "abc" not in str(caught.value)
    assert "schlüssel" not in str(caught.value)


def test_every_conversation_has_its_own_session_and_cookies(service: Service) -> None:
    def respond(handler: Handler, received: Received) -> None:
        body = received.body
        handler.answer(
            received.headers.get("cookie", "none"), set_cookie=f"mind={body['case']}-{body['trial']}; Path=/"
        )

    service.respond = respond

    async def conversations() -> list[list[Reply | AgentError]]:
        shared = agent(service)
        try:
            asked = (converse(shared, TALK), converse(shared, TALK, trial=1), converse(shared, ONE))
            return list(await asyncio.gather(*asked))
        finally:
            await shared.close()

    assert run(conversations()) == [
        [Reply("none"), Reply("mind=talk-0")],
        [Reply("none"), Reply("mind=talk-1")],
        [Reply("none")],
    ]
    assert len({received.body["session"] for received in service.received}) == 3


def test_a_turn_that_failed_is_not_part_of_the_history(service: Service) -> None:
    answers = iter([({}, 500), ("fine", 200)])
    service.respond = lambda handler, _: handler.answer(*next(answers))
    assert isinstance(ask(agent(service), TALK)[0], AgentError)
    assert service.received[1].body["messages"] == [{"role": "user", "content": "second"}]


def test_proxies_of_the_environment_are_not_used_for_loopback(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert answer(agent(service), ONE) == Reply("hello")


# -- what is read


@pytest.mark.proves("HttpTarget: url")
def test_a_body_is_the_reply_mapping(service: Service) -> None:
    service.respond = always(
        {
            "response": "7 days",
            "tool_invocations": [{"name": "search", "args": {"q": "x"}, "result": [1]}],
            "retrieved_chunks": [{"id": "p", "text": "t", "score": 0.5}],
        }
    )
    assert answer(agent(service), ONE) == Reply(
        "7 days", (ToolInvocation("search", {"q": "x"}, [1], 3),), ("t",), (RetrievedChunk("p", "t", 0.5),)
    )


MAPPING = {
    "text": "$.reply",
    "tool_invocations": "$.tools",
    "retrieval_context": "$.chunks[*].text",
    "retrieved_chunks": "$.chunks",
}


@pytest.mark.proves("HttpTarget: response", "ResponseMapping: text tool_invocations retrieved_chunks")
def test_a_response_mapping_finds_the_reply(service: Service) -> None:
    service.respond = always(
        {
            "reply": "7 days",
            "tools": [{"name": "search", "args": {}, "result": None, "call_id": "c-1"}],
            "chunks": [{"id": "p", "text": "one", "vector": [1]}, {"id": "q", "text": "two"}],
            "model": "unmapped",
        }
    )
    assert answer(agent(service, response=MAPPING), ONE) == Reply(
        "7 days",
        (ToolInvocation("search"),),
        ("one", "two"),
        (RetrievedChunk("p", "one"), RetrievedChunk("q", "two")),
    )


@pytest.mark.proves("ResponseMapping: retrieval_context")
@pytest.mark.parametrize(
    ("path", "body", "context"),
    [
        ("$.chunks[*].text", {"chunks": [{"text": "only"}]}, ("only",)),
        ("$.texts", {"texts": ["a", "b"]}, ("a", "b")),
        ("$.texts", {"texts": []}, ()),
        ("$.texts", {"texts": None}, None),
        ("$.texts", {}, None),
        # What is chosen from a list that is there is none of it; what is not there says nothing.
        ("$.texts[*]", {"texts": []}, ()),
        ("$.texts[*]", {}, None),
        ("$.texts[*]", {"texts": None}, None),
        ("$.texts[0]", {"texts": []}, None),
        ("$.steps[*].texts[*]", {"steps": []}, ()),
        ("$.steps[*].texts[*]", {"steps": [{"texts": []}]}, ()),
        ("$.steps[*].texts[*]", {"steps": [{}]}, None),
        ("$.c[?@.text == 'b'].text", {"c": [{"text": "a"}]}, ()),
        ("$..text", {"a": {"text": "x"}, "b": [{"text": "y"}]}, ("x", "y")),
        ("$.c[?search(@.text, 'b+')].text", {"c": [{"text": "abb"}, {"text": "xyz"}]}, ("abb",)),
        ("$.c[?match(@.text, 'a.b')].text", {"c": [{"text": "aab"}, {"text": "aabb"}]}, ("aab",)),
        ("$.c[?@.text =~ /A.*/i].text", {"c": [{"text": "ab"}, {"text": "xa"}]}, ("ab",)),
    ],
)
def test_a_list_collects_all_matches(
    service: Service, path: str, body: dict[str, Any], context: tuple[str, ...] | None
) -> None:
    service.respond = always({"reply": "r", **body})
    mapping = {"text": "$.reply", "retrieval_context": path}
    assert answer(agent(service, response=mapping), ONE) == Reply("r", retrieval_context=context)


@pytest.mark.parametrize(
    ("mapping", "body", "problem"),
    [
        (MAPPING, {"answer": "x"}, "response.text, $['reply'], matches nothing in the answer"),
        ({"text": "$..reply"}, {"reply": "a", "b": {"reply": "c"}}, "response.text, $..['reply'], matches 2 values"),
        (MAPPING, {"reply": None}, "response must be text, an object or a list, not null"),
        (MAPPING, {"reply": 5}, "response must be text, an object or a list, not a number"),
        (MAPPING, "text", "the answer must be a JSON object or list for the target's response mapping"),
        (MAPPING, {"reply": "r", "tools": "search"}, "tool_invocations[0] must be an object, not text"),
        (MAPPING, {"reply": "r", "tools": [{"tool": "x"}]}, "tool_invocations[0].name must be text, not null"),
        (
            MAPPING,
            {"reply": "r", "chunks": [{"id": "a", "text": 1}]},
            "retrieved_chunks[0].text must be text, not a number",
        ),
    ],
)
def test_an_answer_that_does_not_fit_the_mapping_is_a_bad_reply(
    service: Service, mapping: dict[str, str], body: Any, problem: str
) -> None:
    service.respond = always(body)
    error = failure(agent(service, response=mapping), ONE)
    assert error.code == "bad_reply"
    assert error.message.startswith(f"{service.url}/chat gave no usable answer: {problem}")


@pytest.mark.full
@pytest.mark.parametrize("filter_", ["search(@.text, '(a|aa)+$')", "match(@.text, '(a|aa)+b')", "@.text =~ /(a|aa)+b/"])
def test_a_pattern_that_backtracks_for_ever_is_stopped(service: Service, filter_: str) -> None:
    service.respond = always({"reply": "r", "c": [{"text": "a" * 80 + "!"}]})
    error = failure(agent(service, response={"text": f"$.c[?{filter_}].text"}), ONE)
    assert error.code == "bad_reply"
    assert "a pattern took longer than 0.5 s on the answer" in error.message


def test_an_answer_nested_beyond_reason_is_a_bad_reply(service: Service) -> None:
    service.respond = always(b'{"reply": "r", "x": ' + b"[" * 190 + b"]" * 190 + b"}")
    error = failure(agent(service, response={"text": "$..reply"}), ONE)
    assert error.code == "bad_reply"
    assert "cannot be applied to the answer" in error.message


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_a_packed_body_is_read_though_it_was_not_asked_for(
    service: Service, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    service.respond = always(pack(b'"packed"'), content_encoding=encoding)
    assert answer(agent(service), ONE) == Reply("packed")
    assert service.received[0].headers["accept-encoding"] == "identity"


# -- what goes wrong


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_an_error_status_is_told_with_the_beginning_of_its_body(service: Service, status: int) -> None:
    service.respond = always(b"<h1>broken\x1b[31m</h1>\n" + b"x" * 20_000, status)
    error = failure(agent(service), ONE)
    assert error.code == "http_status"
    assert error.message.startswith(f"{service.url}/chat answered with status {status}: <h1>broken [31m</h1> xxx")
    assert error.context["status"] == status
    assert len(error.message) < 400


def test_a_redirect_is_not_followed(service: Service) -> None:
    service.respond = always(b"", 307, location="/elsewhere")
    error = failure(agent(service), ONE)
    assert error.message == (
        f"{service.url}/chat answered with status 307 (redirects are not followed: give the final URL as target)"
    )
    assert len(service.received) == 1


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<!doctype html><html><body>Sign in</body></html>", "answered HTML or XML instead of JSON: <!doctype html>"),
        (b"", "answered 200 without a body"),
        (b"  \n", "answered 200 without a body"),
        (b"Internal error", "answered with a body that is not JSON (Expecting value at column 1): Internal error"),
        (b'{"response": "cut', "answered with a body that is not JSON (Unterminated string"),
        (b'{"response": "a"} {"response": "b"}', "answered with a body that is not JSON (Extra data"),
        (b'{"response": Infinity}', "answered with a body that is not JSON (Infinity is not a JSON value)"),
        (b"\xff\xfe\x00", "answered with a body that is not JSON (Expecting value at column 1)"),
        (b"[" * 100_000, "answered with a body that is not JSON (it is nested too deeply)"),
        (b'{"respons": "a"}', "gave no usable answer: unknown key `respons` (did you mean `response`?)"),
        (b"[]", "gave no usable answer: the reply must be text or an object with `response`, not a list"),
    ],
)
def test_a_body_that_is_no_reply_is_a_bad_reply(service: Service, body: bytes, problem: str) -> None:
    service.respond = always(body)
    error = failure(agent(service), ONE)
    assert error.code == "bad_reply"
    assert error.message.startswith(f"{service.url}/chat {problem}")
    assert len(error.message) < 400


def test_secrets_appear_in_no_error(service: Service) -> None:
    def respond(handler: Handler, received: Received) -> None:
        sent = received.headers
        handler.answer(
            f"denied: {sent['authorization']} / {sent['x-key']} / tok-123456 / {received.path}".encode(), 403
        )

    service.respond = respond
    headers = {"X-Key": "key-abcdef", "X-Other": "Bearer tok-123456"}
    url = service.url.replace("http://", "http://user:hunter22@") + "/chat?token=q-secret"
    error = failure(HttpAgent(target(url, headers=headers), MAX_BYTES, os.environ, str), ONE)
    assert (
        error.message == f"{service.url}/chat answered with status 403: denied: Basic *** / *** / *** / /chat?token=***"
    )
    for secret in ("tok-123456", "key-abcdef", "hunter22", "q-secret"):
        assert secret not in repr((error, error.context))
    assert service.received[0].path == "/chat?token=q-secret"


def test_no_service_is_a_connection_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = failure(HttpAgent(target(f"http://127.0.0.1:{port}/chat"), MAX_BYTES, os.environ, str), ONE)
    assert error.code == "connect"
    assert error.message.startswith(f"http://127.0.0.1:{port}/chat cannot be reached")


@walk(
    "answer_bytes",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x-filler: " + b"y" * 200_000,
    ],
)
def test_a_broken_exchange_is_an_error(answer_bytes: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer_bytes)

        thread = threading.Thread(target=serve)
        thread.start()
        error = failure(
            HttpAgent(target(f"http://127.0.0.1:{server.getsockname()[1]}/"), MAX_BYTES, os.environ, str), ONE
        )
        thread.join()
    assert error.code == "disconnected"
    assert "closed the connection early" in error.message


def test_an_answer_of_fifty_megabytes_is_too_large(service: Service) -> None:
    service.respond = always(b'"' + b"x" * 50_000_000 + b'"')
    error = failure(agent(service), ONE)
    assert (error.code, error.message) == (
        "too_large",
        f"{service.url}/chat answered with more than 6000000 bytes (see limits.max_response_bytes); "
        "the connection was closed",
    )


def test_a_reply_over_the_limit_is_too_large(service: Service) -> None:
    service.respond = always("x" * 101)
    assert failure(agent(service, max_bytes=100), ONE).code == "too_large"
    assert answer(agent(service, max_bytes=101), ONE) == Reply("x" * 101)


def endless(piece: bytes, closed: threading.Event, **headers: str) -> Respond:
    def respond(handler: Handler, received: Received) -> None:
        send = handler.chunks(**headers)
        try:
            for _ in range(100_000):
                send(piece)
        except OSError:
            closed.set()
            raise

    return respond


def test_an_endless_body_ends_with_the_connection(service: Service) -> None:
    closed = threading.Event()
    service.respond = endless(b"x" * 10_000, closed)
    assert failure(agent(service, max_bytes=10_000), ONE).code == "too_large"
    assert closed.wait(60)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_packed_bomb_is_too_large(service: Service, encoding: str) -> None:
    packed = (gzip.compress if encoding == "gzip" else zlib.compress)(b"\0" * 50_000_000)
    assert len(packed) < 200_000
    service.respond = always(packed, content_encoding=encoding)
    assert failure(agent(service), ONE).code == "too_large"


@pytest.mark.parametrize(
    ("body", "encoding", "problem"),
    [
        (b"not gzip", "gzip", "answered with a broken compressed body"),
        (gzip.compress(b'"text"', mtime=0)[:-10], "gzip", "answered with an incomplete compressed body"),
        (b"?", "br", "answered with content-encoding br, which was not requested"),
        (b"?", "gzip, gzip", "answered with content-encoding gzip, gzip, which was not requested"),
    ],
)
def test_a_packed_body_that_cannot_be_read_is_a_bad_reply(
    service: Service, body: bytes, encoding: str, problem: str
) -> None:
    service.respond = always(body, content_encoding=encoding)
    error = failure(agent(service), ONE)
    assert (error.code, error.message) == ("bad_reply", f"{service.url}/chat {problem}")


def test_a_service_that_never_answers_is_left_at_the_deadline(service: Service) -> None:
    asked = threading.Event()

    def respond(handler: Handler, _: Received) -> None:
        asked.set()
        service.released.wait(60)
        handler.close_connection = True

    service.respond = respond
    run(cancel_when(agent(service), asked))


def test_a_service_that_answers_a_byte_at_a_time_is_left_at_the_deadline(service: Service) -> None:
    asked = threading.Event()
    closed = threading.Event()

    def respond(handler: Handler, received: Received) -> None:
        send = handler.chunks()
        try:
            for _ in range(100_000):
                send(b" ")
                asked.set()
                if service.released.wait(0.001):
                    return
        except OSError:
            closed.set()
            raise

    service.respond = respond
    run(cancel_when(agent(service), asked))
    assert closed.wait(60)


async def cancel_when(under_test: HttpAgent, asked: threading.Event) -> None:
    """Ask, and cancel once the service has been asked."""
    session = await under_test.open(ONE, 0)
    sending = asyncio.create_task(session.send(ONE.turns[0]))
    assert await asyncio.to_thread(asked.wait, 60)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await session.close()
    await under_test.close()
