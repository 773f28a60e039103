"""MCP servers one by one: every field, every kind of trouble, and that nothing of them is left behind."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.extensions.mcp.mcp_settings import server_secrets
from holodeck_action.extensions.mcp.mcp_tools import McpServers, visible_names
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.tools import MCPTool
from holodeck_action.targets.own_model.toolbox import Tool, ToolError, ToolResult, chunks_of
from tests.commands.deadlines import ever_longer
from tests.extensions.mcp.mcp_servers.starting import RUDE, SHOP, answering, mcp, served, servers, using
from tests.targets.conversations import run
from tests.workers.support import running, wait_until

MAX_BYTES = 100_000


async def call(tools: dict[str, Tool], name: str, timeout_s: float | None = None, **args: Any) -> ToolResult:
    return await tools[name].call(args, "one", max_bytes=MAX_BYTES, timeout_s=timeout_s)


async def refused(tools: dict[str, Tool], name: str, timeout_s: float | None = None, **args: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await call(tools, name, timeout_s, **args)
    return caught.value


def unavailable(kit: McpServers) -> AgentError:
    """The error of opening; nothing is left to close."""

    async def work() -> AgentError:
        with pytest.raises(AgentError) as caught:
            await kit.open()
        return caught.value

    error: AgentError = run(work())
    assert error.code == "tool_unavailable"
    return error


def pids(folder: Path) -> list[int]:
    """The processes that a stubborn server has written down, once it has."""
    assert wait_until((folder / "pids.json").exists)
    found: list[int] = json.loads((folder / "pids.json").read_text())
    return found


def gone(folder: Path) -> bool:
    """A killed process needs a moment, more on a busy machine."""
    return wait_until(lambda: not any(map(running, pids(folder))))


# -- what a process gets


@pytest.mark.full
@pytest.mark.parametrize("program", ["python", "python3"])
def test_a_server_of_the_repository_is_run_by_python(tmp_path: Path, program: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program).symlink_to(sys.executable)
    (tmp_path / "server.py").write_text(Path(RUDE).read_text())

    async def work(tools: dict[str, Tool]) -> object:
        return (await call(tools, "act", colour="red")).value

    entry = {**mcp("rude", "server.py"), "command": program}
    assert using(servers(tmp_path, entry), work) == '{"tool": "act", "colour": "red"}'


@pytest.mark.parametrize("refusal", ["-32601", "-32602"])
def test_a_server_without_handshake_is_asked_as_the_stateless_protocol_wants(tmp_path: Path, refusal: str) -> None:
    async def work(tools: dict[str, Tool]) -> str:
        return str((await call(tools, "act", colour="red")).value)

    assert using(servers(tmp_path, mcp("rude", RUDE, refusal)), work) == '{"tool": "act", "colour": "red"}'
    assert (tmp_path / "methods").read_text().splitlines() == ["server/discover", "tools/list", "tools/call"]


def test_a_server_that_knows_the_handshake_alone_is_discovered_first(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        assert set(tools) == {"act"}

    using(servers(tmp_path, mcp("rude", RUDE)), work)
    methods = (tmp_path / "methods").read_text().splitlines()
    assert methods == ["server/discover", "initialize", "notifications/initialized", "tools/list"]


@pytest.mark.proves("MCPTool: env env_file config")
def test_a_process_gets_its_arguments_environment_and_place(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(Path(RUDE).read_text())
    (tmp_path / "shop.env").write_text('# comment\n\nA=from the file\nB = " quoted "\nC=x=y\n', encoding="utf-8-sig")
    entry = mcp(
        "rude",
        "./server.py",
        "environment",
        "chatty./",
        env={"A": "from env", "D": "4"},
        env_file="shop.env",
        config={"mode": "ü", "allowed_tools": ["act"]},
    )

    async def work(tools: dict[str, Tool]) -> dict[str, str]:
        variables: dict[str, str] = json.loads((await call(tools, "act")).value)
        return variables

    seen = using(servers(tmp_path, entry, OF_THE_JOB="yes", GH_TOKEN="ghs_1", ACTIONS_RUNTIME_TOKEN="t"), work)
    assert [seen.get(name) for name in ("A", "B", "C", "D")] == ["from env", '" quoted "', "x=y", "4"]
    assert json.loads(seen["MCP_CONFIG"]) == {"mode": "ü", "allowed_tools": ["act"]}
    assert seen["OF_THE_JOB"] == "yes"
    assert {"GH_TOKEN", "ACTIONS_RUNTIME_TOKEN"} & {*seen} == set()
    # It starts in the suite's folder.
    assert (tmp_path / "starts").read_text() == "x"


@pytest.mark.proves("MCPTool: command")
def test_the_command_is_found_on_the_path_of_the_servers_environment(tmp_path: Path) -> None:
    other = tmp_path / "other" / "uvx"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nSTARTED_BY=uvx exec "{sys.executable}" "$@"\n')
    other.chmod(0o755)

    async def work(tools: dict[str, Tool]) -> Any:
        return json.loads((await call(tools, "act")).value).get("STARTED_BY")

    entry = mcp("rude", RUDE, "environment", command="uvx", env={"PATH": str(other.parent)})
    assert using(servers(tmp_path, entry), work) == "uvx"


@pytest.mark.full
@pytest.mark.proves("MCPTool: args")
def test_arguments_with_a_dot_are_places_in_the_suite(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    folder.mkdir()

    async def work(tools: dict[str, Tool]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((await call(tools, "place")).value)
        return found

    found = using(servers(folder, mcp("shop", SHOP, "./data/a", "../b", ".c", "d/./e")), work)
    assert found["folder"] == str(folder)
    assert found["arguments"] == [str(folder / "data" / "a"), str(tmp_path / "b"), ".c", "d/./e"]


@pytest.mark.proves("MCPTool: encoding")
def test_the_encoding_is_that_of_the_lines(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> Any:
        return (await call(tools, "act", said="café → x")).value

    assert '"café' in using(servers(tmp_path, mcp("rude", RUDE, encoding="utf-8")), work)
    read = using(servers(tmp_path, mcp("rude", RUDE, "latin", encoding="latin-1")), lambda tools: latin(tools))
    assert json.loads(read)["said"] == "café"


async def latin(tools: dict[str, Tool]) -> Any:
    return (await call(tools, "act", said="café")).value


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"encoding": "klingon"}, "tools.t.encoding: klingon is not a text encoding; use utf-8"),
        ({"encoding": "base64"}, "tools.t.encoding: base64 is not a text encoding; use utf-8"),
        ({"encoding": "utf-16"}, "tools.t.encoding: in utf-16 messages cannot be single lines"),
        ({"env": {"A=B": "x"}}, "tools.t.env: 'A=B' or its value cannot be passed to a process"),
        ({"env": {"A": "planted\0"}}, "tools.t.env: 'A' or its value cannot be passed to a process"),
        ({"args": ["a\0"]}, "tools.t.args: holds a null character"),
        ({"env_file": "bad.env"}, "tools.t.env_file: bad.env line 2 is not an assignment"),
        ({"env_file": "binary.env"}, "tools.t.env_file: binary.env is not UTF-8 text"),
        ({"env_file": "."}, "tools.t.env_file: . cannot be read: Is a directory"),
        ({"command": "uvx", "env": {"PATH": "/nowhere"}}, "tools.t.command: uvx is not on the PATH; install uv"),
        ({"config": {"allowed_tools": "act"}}, "tools.t.config.allowed_tools: must be a list"),
        ({"config": {"allowed_tools": [1]}}, "tools.t.config.allowed_tools: must be a list"),
        ({"transport": "websocket", "url": "wss://a.example"}, "tools.t.transport: websocket is not a transport"),
        (
            {"transport": "http", "url": "wss://a.example"},
            "tools.t.url: is not a valid server URL for transport http (exp",
        ),
        ({"transport": "sse", "url": "https://"}, "tools.t.url: is not a valid server URL for transport sse (exp"),
        (
            {"transport": "http", "url": "https://a:99999"},
            "tools.t.url: is not a valid server URL for transport http (exp",
        ),
        ({"headers": {"a b": "x"}}, "tools.t.headers: header name a b holds characters that HTTP does not allow"),
        ({"headers": {"Host": "x"}}, "tools.t.headers: header Host is set by the HTTP client itself"),
        ({"headers": {"X": "planted\n"}}, "tools.t.headers: the value of header X holds a line break"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, fields: dict[str, Any], sentence: str) -> None:
    (tmp_path / "bad.env").write_text("A=1\nplanted without a sign\n")
    (tmp_path / "binary.env").write_bytes(b"A=\xff\n")
    if "headers" in fields:
        fields = {"transport": "http", "url": "https://a.example", **fields}
    with pytest.raises(TargetError) as caught:
        servers(tmp_path, mcp("t", **fields))
    assert str(caught.value).startswith(sentence)
    assert "planted" not in str(caught.value)


@pytest.mark.proves("MCPTool: load_prompts")
def test_what_has_no_effect_is_told(tmp_path: Path) -> None:
    kit = servers(
        tmp_path,
        mcp("a", RUDE, timeout=3.0, load_prompts=True),
        mcp("b", url="https://b.example", transport="http", env={"A": "x"}, encoding="utf-8", config={"x": 1}),
        mcp("c", url="https://c.example", transport="sse", terminate_on_close=False, config={"allowed_tools": ["x"]}),
        mcp("d", RUDE, load_tools=False, load_prompts=False),
        mcp("e", url="https://e.example", transport="http", headers={"A": "x"}, timeout=1.0, registry_name="io.e"),
    )
    assert kit.notices == (
        "tools.a: timeout has no effect on transport stdio",
        "tools.a: load_prompts has no effect, because a model gets only the tools of a server",
        "tools.b: env, encoding, config except allowed_tools has no effect on transport http",
        "tools.c: terminate_on_close has no effect on transport sse",
        "tools.d: load_tools is false, so the server is not started",
    )


@pytest.mark.proves("MCPTool: load_tools")
def test_without_its_tools_a_server_is_not_started(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> list[str]:
        return [*tools]

    assert using(servers(tmp_path, mcp("rude", RUDE, load_tools=False)), work) == []
    assert not (tmp_path / "starts").exists()


# -- tools


@pytest.mark.full
@pytest.mark.proves("MCPTool: config")
def test_only_allowed_tools_are_shown(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> list[str]:
        return [*tools]

    entry = mcp("shop", SHOP, config={"allowed_tools": ["search", "find_order"]})
    assert using(servers(tmp_path, entry), work) == ["find_order", "search"]
    assert using(servers(tmp_path, mcp("rude", RUDE, config={"allowed_tools": []})), work) == []
    error = unavailable(servers(tmp_path, mcp("rude", RUDE, config={"allowed_tools": ["act", "find"]})))
    assert error.message == 'tools.rude.config.allowed_tools: the server has no tool "find" (it has: act)'


def test_names_are_unique_and_fit_every_provider(tmp_path: Path) -> None:
    long, longer = "x" * 80, "x" * 81
    found = [("a", "find"), ("b", "find"), ("b", "kb_search"), ("c", "a.b"), ("c", "act"), ("c", long), ("d", longer)]
    names = visible_names([*found, ("e", "")], {"kb_search", "fn", "mcp__b__find"})
    assert [*names[:1], *names[2:5]] == ["mcp__a__find", "mcp__b__kb_search", "a_b", "act"]
    assert names[1].startswith("mcp__b__find_")
    assert len({*names}) == len(names)
    for name in names:
        assert name.replace("_", "").replace("-", "").isalnum()
        assert len(name) <= 64

    async def work(tools: dict[str, Tool]) -> None:
        assert len(tools) == 6
        told = [notice for notice in kit.notices if "the model sees the tool" in notice]
        assert len(told) == 5
        # Whatever the model calls it, the server is asked by its own name.
        for name, tool in tools.items():
            asked = json.loads((await call(tools, name)).value)["tool"]
            assert (asked == name) == (name == "act")
            assert tool.definition.name == name

    kit = servers(tmp_path, mcp("rude", RUDE, "odd-names"))
    using(kit, work)


@pytest.mark.parametrize(
    ("manner", "sentence"),
    [
        ("bad-schema", 'tools.rude: the server\'s tool "bad" has an inputSchema that is not a JSON schema'),
        ("no-tools", "tools.rude: the server lists no tools"),
        ("endless", "tools.rude: MCP server: the server lists more than 1000 tools, or lists them without end"),
        ("ancient", "tools.rude: MCP server: the server does not speak the protocol: Unsupported protocol version"),
        ("exits", "tools.rude: MCP server: its process exited with code 7; its last line on stderr: cannot start"),
    ],
)
def test_a_server_that_cannot_be_used(tmp_path: Path, manner: str, sentence: str) -> None:
    assert unavailable(servers(tmp_path, mcp("rude", RUDE, manner))).message.startswith(sentence)


def test_every_server_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    kit = servers(tmp_path, mcp("one", RUDE, "exits"), mcp("two", RUDE, "stubborn"), mcp("three", RUDE, "no-tools"))
    message = unavailable(kit).message
    assert "tools.one: " in message
    assert "tools.three: " in message
    assert "tools.two" not in message
    assert gone(tmp_path)


def test_a_bad_schema_may_be_left_out(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> list[str]:
        return [*tools]

    assert using(servers(tmp_path, mcp("rude", RUDE, "bad-schema", config={"allowed_tools": ["act"]})), work) == ["act"]


# -- results


async def check_descriptions(tools: dict[str, Tool]) -> None:
    """The model sees description and schema."""
    order = tools["find_order"].definition
    assert order.description == "Say where an order is."
    assert order.parameters["required"] == ["order"]
    # Without a description there is at least the name.
    assert tools["broken"].definition.description
    assert not tools["search"].is_retrieval


async def check_results(tools: dict[str, Tool]) -> None:
    """They are text or structured."""
    assert (await call(tools, "mixed")).value.splitlines() == [
        "A picture:",
        "[image/png, 4 bytes]",
        "[audio/wav, 3 bytes]",
        "[shop://list]",
        "embedded",
        "[application/octet-stream, 2 bytes]",
    ]
    structured = await call(tools, "structured")
    assert structured.value == {"found": 2, "names": ["a", "ü"]}
    assert structured.bytes == len('{"found": 2, "names": ["a", "ü"]}'.encode())
    # What is text as well as structure is text.
    assert isinstance((await call(tools, "search", query="x")).value, str)


async def check_an_error(tools: dict[str, Tool]) -> None:
    """It is shown to the model."""
    error = await refused(tools, "broken", order="X")
    assert error.code == "raised"
    assert error.message == f"tools.shop.broken: {error.for_model}"
    assert "broken" in error.for_model


async def check_a_large_result(tools: dict[str, Tool]) -> None:
    """It is cut and counted, and others are whole."""
    result = await call(tools, "large", size=10_000_000)
    assert (result.bytes, result.cut, result.value) == (10_000_000, True, "ü" * (MAX_BYTES // 2))
    assert (await call(tools, "find_order", order="A")).value == "A is in Leeds"


@pytest.mark.full
def test_what_the_tools_of_a_server_are_and_return(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        await check_descriptions(tools)
        await check_results(tools)
        await check_an_error(tools)
        await check_a_large_result(tools)

    using(servers(tmp_path, mcp("shop", SHOP)), work)


@pytest.mark.full
def test_results_of_a_retrieval_server_are_chunks(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        assert tools["search"].is_retrieval
        found = [chunks_of((await call(tools, name, query="x")).value) for name in ("search", "pages")]
        assert [(chunk.id, chunk.text, chunk.score) for chunk in found[0]] == [
            ("faq#1", "About x", 0.9),
            ("faq#2", "Returns", 0.25),
        ]
        assert [chunk.text for chunk in found[1]] == ["About x", "Returns"]
        assert found[1][1].id == "7"
        (order,) = chunks_of((await call(tools, "find_order", order="A")).value)
        assert order.text == "A is in Leeds"
        (placed,) = chunks_of((await call(tools, "structured")).value)
        assert json.loads(placed.text or "")["found"] == 2

    using(servers(tmp_path, mcp("shop", SHOP, is_retrieval=True)), work)


@pytest.mark.parametrize(
    ("manner", "code", "sentence"),
    [
        ("refuses", "refused", "tools.rude: MCP server: the server refused: no such tool [31m here"),
        ("nonsense", "bad_answer", "tools.rude: MCP server: the server sent an invalid answer (ValidationError)"),
        ("nan", "bad_answer", "tools.rude.act: the server sent an invalid result"),
    ],
)
def test_a_call_without_a_result(tmp_path: Path, manner: str, code: str, sentence: str) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        error = await refused(tools, "act")
        assert (error.code, error.message) == (code, sentence)

    using(servers(tmp_path, mcp("rude", RUDE, manner)), work)


def test_garbage_on_the_output_is_passed_over(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> Any:
        return json.loads((await call(tools, "act", n=1)).value)

    assert using(servers(tmp_path, mcp("rude", RUDE, "chatty")), work) == {"tool": "act", "n": 1}


# -- breaking down and starting again


def test_a_server_that_dies_is_started_again_and_given_up_at_last(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        for _ in range(3):
            error = await refused(tools, "act")
            assert (error.code, error.message) == ("crashed", "tools.rude: MCP server: its process exited with code 9")
        # An answered call shows that it can work.
        starts = (tmp_path / "starts").read_text()
        assert starts == "xxx"
        error = await refused(tools, "act", die=False)
        assert error.message == (
            "tools.rude: MCP server: the server failed 3 times in a row and is not started again (its process exited "
            "with code 9)"
        )
        assert (tmp_path / "starts").read_text() == starts

    using(servers(tmp_path, mcp("rude", RUDE, "dies")), work)


def test_an_answered_call_forgives_what_was_before(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        for _ in range(2):
            for _ in range(2):
                await refused(tools, "act")
            await call(tools, "act", die=False)
        assert (tmp_path / "starts").read_text() == "xxxxx"

    using(servers(tmp_path, mcp("rude", RUDE, "dies")), work)


@pytest.mark.full
def test_calls_at_the_same_time_share_what_happens(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        found = await asyncio.gather(*(call(tools, "act", n=n) for n in range(20)))
        assert [json.loads(result.value)["n"] for result in found] == [*range(20)]
        errors = await asyncio.gather(*(refused(tools, "end") for _ in range(3)), return_exceptions=True)
        assert {error.code for error in errors if isinstance(error, ToolError)} <= {"crashed"}

    using(servers(tmp_path, mcp("rude", RUDE), mcp("shop", SHOP)), work)


def test_a_flood_ends_the_server(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        error = await refused(tools, "act")
        assert error.code == "too_large"
        assert error.message.startswith("tools.rude: MCP server: the server sent a message of more than 64000000 bytes")

    using(servers(tmp_path, mcp("rude", RUDE, "floods")), work)


def test_a_call_that_hangs_is_left_alone(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        error = await refused(tools, "act", timeout_s=0.1)
        assert (error.code, error.message) == (
            "timeout",
            "tools.rude: MCP server: the server did not answer within 0.1 s",
        )
        # Others are answered meanwhile.
        assert json.loads((await call(tools, "act", hang=False)).value)["tool"] == "act"

    using(servers(tmp_path, mcp("rude", RUDE, "hangs")), work)


async def check_a_call_that_hangs(tools: dict[str, Tool]) -> None:
    """It is left alone, and others are answered."""
    error = await refused(tools, "slow", timeout_s=0.1, seconds=600)
    assert error.code == "timeout"
    assert (await call(tools, "find_order", order="A")).value == "A is in Leeds"


async def check_its_death(tools: dict[str, Tool]) -> None:
    """It is an error of each call."""
    assert (await refused(tools, "end")).code == "disconnected"
    error = await refused(tools, "find_order", order="A")
    assert error.code == "disconnected"
    assert "the server cannot be reached" in error.message


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_calls_over_http(tmp_path: Path, transport: str) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        await check_a_large_result(tools)
        await check_a_call_that_hangs(tools)
        await check_its_death(tools)

    with served(tmp_path, "sse" if transport == "sse" else "streamable-http") as shop:
        using(servers(tmp_path, mcp("shop", transport=transport, url=shop.url, headers={"x-shop": "open"})), work)


# -- addresses


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_an_address_that_refuses_or_is_not_there(tmp_path: Path, transport: str) -> None:
    with served(tmp_path, "sse" if transport == "sse" else "streamable-http") as shop:
        entry = mcp("shop", transport=transport, url=f"{shop.url}?key=planted", headers={"x-shop": "planted"})
        closed = unavailable(servers(tmp_path, entry)).message
    assert closed.startswith(f"tools.shop: MCP server {shop.url}: the server ")
    assert "HTTP 401" in closed
    assert "planted" not in closed
    message = unavailable(servers(tmp_path, mcp("shop", transport=transport, url=shop.url))).message
    assert message.startswith(f"tools.shop: MCP server {shop.url}: the server cannot be reached: ")


@pytest.mark.proves("MCPTool: terminate_on_close")
def test_the_session_is_ended_unless_it_is_not_wanted(tmp_path: Path) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        await call(tools, "find_order", order="A")

    with served(tmp_path, "sessions") as shop:
        for terminate, times in ((False, 0), (True, 1)):
            entry = mcp(
                "shop", transport="http", url=shop.url, headers={"x-shop": "open"}, terminate_on_close=terminate
            )
            using(servers(tmp_path, entry), work)
            assert shop.log.count("DELETE /mcp") == times


EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def in_vain(tmp_path: Path, answer: Callable[[bytes], bytes], transport: str = "sse", **fields: Any) -> str:
    """Open a server that answers like that; return what is said."""

    async def reply(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(head))

    async def work() -> str:
        async with answering(reply) as url:
            kit = servers(tmp_path, mcp("odd", transport=transport, url=url, **fields))
            with pytest.raises(AgentError) as caught:
                await kit.open()
            return caught.value.message.partition(": the server ")[2]

    said: str = run(work())
    return said


@pytest.mark.proves("MCPTool: timeout sse_read_timeout request_timeout")
def test_the_bounds_of_an_address(tmp_path: Path) -> None:
    def silent(head: bytes) -> bytes:
        return EVENTS

    def deaf(head: bytes) -> bytes:
        return EVENTS + b"event: endpoint\ndata: /messages\n\n" if head.startswith(b"GET") else b""

    assert in_vain(tmp_path, silent, sse_read_timeout=0.1) == "closed the connection early (ReadTimeout)"
    assert in_vain(tmp_path, deaf, timeout=0.1) == "closed the connection early (ReadTimeout)"
    said = in_vain(tmp_path, deaf, request_timeout=0.2)
    assert said == "was not ready within 0.2 s (request_timeout)"


def test_a_flood_over_http_ends_the_connection(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 70000000\r\n\r\n"
    said = in_vain(tmp_path, lambda _: head + b" " * 70_000_000, "http")
    assert said == "sent a message of more than 64000000 bytes; the connection was ended"


def test_messages_go_to_no_other_server(tmp_path: Path) -> None:
    def elsewhere(head: bytes) -> bytes:
        return EVENTS + b"event: endpoint\ndata: http://127.0.0.1:9/messages\n\n"

    said = in_vain(tmp_path, elsewhere)
    assert said == "redirects messages to another server, which must not receive its headers"


# -- the end


@pytest.mark.full
@pytest.mark.races
@pytest.mark.parametrize("manners", [(), ("hangs",), ("floods",)])
def test_nothing_is_left_of_a_server_that_will_not_end(tmp_path: Path, manners: tuple[str, ...]) -> None:
    async def work(tools: dict[str, Tool]) -> None:
        assert all(running(pid) for pid in pids(tmp_path))
        if manners:
            asyncio.get_running_loop().create_task(call(tools, "act")).add_done_callback(lambda done: done.exception())
            assert await asyncio.to_thread(wait_until, (tmp_path / "called").exists)

    using(servers(tmp_path, mcp("rude", RUDE, "stubborn", *manners)), work)
    assert gone(tmp_path)


@pytest.mark.races
def test_nothing_is_left_of_a_start_that_was_broken_off(tmp_path: Path) -> None:
    async def work() -> None:
        kit = servers(tmp_path, mcp("rude", RUDE, "stubborn", "silent"), mcp("other", RUDE, "silent"))
        opening = asyncio.create_task(kit.open())
        assert await asyncio.to_thread(wait_until, (tmp_path / "pids.json").exists)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await kit.close()

    run(work())
    assert gone(tmp_path)


@pytest.mark.races
def test_a_start_broken_off_at_once_leaves_nothing(tmp_path: Path) -> None:
    async def work(turns: int) -> None:
        kit = servers(tmp_path, mcp("rude", RUDE))
        opening = asyncio.create_task(kit.open())
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await kit.close()
        await kit.close()

    for turns in range(6):
        run(work(turns))


def test_a_server_that_is_not_ready_in_time_says_what_it_does(tmp_path: Path) -> None:
    def attempt(seconds: float) -> tuple[AgentError, float]:
        return unavailable(servers(tmp_path, mcp("rude", RUDE, "silent", request_timeout=float(seconds)))), seconds

    error, seconds = ever_longer(attempt, lambda found: bool((found[0].context or {}).get("stderr")))
    assert error.message == (
        f"tools.rude: MCP server: the server was not ready within {seconds} s (request_timeout); its output, which may "
        "contain only messages, contains: Server listening; its last line on stderr: waiting for a database"
    )
    assert error.context == {"stderr": "waiting for a database\n"}


def test_a_closed_server_is_not_started_again(tmp_path: Path) -> None:
    async def work() -> None:
        kit = servers(tmp_path, mcp("rude", RUDE))
        tools = {tool.definition.name: tool for tool in await kit.open()}
        await kit.end("one")
        await kit.close()
        assert (await refused(tools, "act")).code == "closed"
        assert (tmp_path / "starts").read_text() == "x"

    run(work())


def test_secrets_of_entries(tmp_path: Path) -> None:
    (tmp_path / "shop.env").write_text("SHOP_TOKEN=token-in-the-file\nREGION=north-of-here\nSHORT_KEY=abc\n")
    entries = [
        MCPTool(**mcp("a", env={"API_KEY": "key-in-the-suite", "MODE": "production"}, env_file="shop.env")),
        MCPTool(**mcp("b", env_file="absent.env")),
        MCPTool(
            **mcp(
                "c",
                transport="http",
                url="https://a.example",
                headers={
                    "Authorization": "Bearer of-a-header",
                    "X-Api-Key": "key-of-a-header",
                    "Accept": "application/json",
                },
            )
        ),
    ]
    assert server_secrets(entries, Checkout.of(tmp_path, tmp_path)) == {
        "token-in-the-file",
        "key-in-the-suite",
        "Bearer of-a-header",
        "of-a-header",
        "key-of-a-header",
    }
