"""MCP servers of the suite behind `run`: real servers, the model of a server on loopback, and what is recorded."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from holodeck_action.record.record import ToolInvocation
from tests.commands.project import Finished, Project
from tests.extensions.mcp.mcp_servers.starting import RUDE, SHOP, mcp, path_with_npx, served
from tests.llm.models import KEY, FakeModels
from tests.targets.test_own import asking, assert_hidden, calling, files_below
from tests.workers.support import running

TOKEN = "tok-planted-0815-secret"
FILE_TOKEN = "tok-in-a-file-2342-secret"
HEADER_TOKEN = "tok-of-a-header-9911-secret"


def evaluated(project: Project, *arguments: str, **environ: str) -> tuple[Finished, Any]:
    path = path_with_npx(project.folder)
    return project.evaluate(*arguments, PATH=path, OPENAI_API_KEY=KEY, **environ)


def invocations(record: Any, case: int = 0) -> tuple[ToolInvocation, ...]:
    calls: tuple[ToolInvocation, ...] = record.cases[case].trials[0].turns[0].tool_invocations
    return calls


def ordering(project: Project, models: FakeModels, *entries: dict[str, Any], tool: str = "find_order") -> None:
    """A suite with one case, whose model asks where an order is."""
    case = {"name": "order", "input": "Where is A-17?", "ground_truth": "Leeds", "expected_tools": ["find_order"]}
    asking(project, models, [case], tools=[*entries])
    models.script([calling(tool, order="A-17"), "Leeds"])


@pytest.mark.full
@pytest.mark.proves("MCPTool: type")
def test_a_tool_of_a_process_is_called_and_recorded(project: Project, models: FakeModels) -> None:
    ordering(project, models, mcp("shop", SHOP))
    finished, record = evaluated(project)
    assert finished.code == 0, finished.stdout + finished.stderr
    first, second = models.requests
    assert {"find_order", "search", "place"} <= {*first.tools}
    assert second.results == ("A-17 is in Leeds",)
    (called,) = invocations(record)
    assert (called.name, called.args, called.result, called.bytes, called.error) == (
        "find_order",
        {"order": "A-17"},
        "A-17 is in Leeds",
        16,
        None,
    )
    assert called.duration_ms is not None
    # The server logs what it is asked; that is not ours to show.
    assert "Processing request" not in finished.stderr
    assert_hidden(project, finished)


@pytest.mark.full
@pytest.mark.proves("MCPTool: transport url headers")
@pytest.mark.parametrize(
    ("transport", "served_as"), [("http", "streamable-http"), ("http", "sessions"), ("sse", "sse")]
)
def test_a_tool_of_an_address_is_called_and_recorded(
    project: Project, models: FakeModels, transport: str, served_as: str
) -> None:
    with served(project.folder, served_as) as shop:
        entry = mcp("shop", transport=transport, url=shop.url, headers={"X-Shop": "open"})
        ordering(project, models, entry)
        # A proxy of the environment has no business with this machine.
        finished, record = evaluated(project, HTTP_PROXY="http://127.0.0.1:9", NO_PROXY="")
        assert finished.code == 0, finished.stdout + finished.stderr
        assert ("DELETE /mcp" in shop.log) == (served_as == "sessions")
    (called,) = invocations(record)
    assert (called.name, called.result, called.error) == ("find_order", "A-17 is in Leeds", None)
    assert models.requests[1].results == ("A-17 is in Leeds",)


@pytest.mark.full
@pytest.mark.proves("MCPTool: is_retrieval")
def test_chunks_of_a_retrieval_server_are_recorded(project: Project, models: FakeModels) -> None:
    asking(project, models, tools=[mcp("shop", SHOP, is_retrieval=True)])
    models.script([calling("search", query="ü"), calling("pages", query="b"), "echo: ping"])
    finished, record = evaluated(project)
    assert finished.code == 0, finished.stdout + finished.stderr
    turn = record.cases[0].trials[0].turns[0]
    chunks = [(chunk.id, chunk.text, chunk.score) for chunk in turn.retrieved_chunks]
    assert chunks[:2] == [("faq#1", "About ü", 0.9), ("faq#2", "Returns", 0.25)]
    assert [text for _, text, _ in chunks[2:]] == ["About b", "Returns"]
    assert chunks[3][0] == "7"
    assert turn.retrieval_context == ("About ü", "Returns", "About b", "Returns")


@pytest.mark.full
def test_a_tool_that_fails_is_the_models_to_see(project: Project, models: FakeModels) -> None:
    asking(project, models, tools=[mcp("shop", SHOP)])
    models.script([calling("broken", order="X"), calling("end"), calling("find_order", order="B"), "echo: ping"])
    finished, record = evaluated(project)
    assert finished.code == 0, finished.stdout + finished.stderr
    failed, died, found = invocations(record)
    assert failed.error is not None
    assert failed.error.startswith("tools.shop.broken: ")
    assert "broken" in models.requests[1].results[0]
    assert died.error == (
        "tools.shop: MCP server: its process exited with code 3; its last line on stderr: the shop burned down"
    )
    # It is started again.
    assert (found.result, found.error) == ("B is in Leeds", None)


def test_conversations_share_one_process_and_a_clash_of_names_is_told(project: Project, models: FakeModels) -> None:
    project.write("shop.py", "def act():\n    return 'ours'\n")
    function = {"type": "function", "name": "act", "description": "Acts.", "file": "shop.py", "function": "act"}
    cases = [{"name": f"case {n}", "input": f"say {n}", "ground_truth": "done"} for n in range(3)]
    asking(project, models, cases, tools=[function, mcp("rude", RUDE)])
    models.answer(lambda request: "done" if request.results else calling("mcp__rude__act", n=1))
    finished, record = evaluated(project)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert {*models.requests[0].tools} == {"act", "mcp__rude__act"}
    assert [json.loads(invocations(record, n)[0].result) for n in range(3)] == [{"tool": "act", "n": 1}] * 3
    assert (project.folder / "starts").read_text() == "x"


@pytest.mark.full
def test_a_server_that_cannot_be_started_is_no_low_score(project: Project, models: FakeModels) -> None:
    cases = [{"name": f"case {n}", "input": "ping", "ground_truth": "echo: ping"} for n in range(2)]
    asking(project, models, cases, tools=[mcp("shop", SHOP), mcp("rude", RUDE, "exits", env={"SHOP_TOKEN": TOKEN})])
    finished, _ = evaluated(project)
    assert finished.code == 3, finished.stdout + finished.stderr
    assert models.requests == []
    results = (project.out / "results.json").read_text()
    assert results.count('"tool_unavailable"') == 2
    assert (
        "tools.rude: MCP server: its process exited with code 7; its last line on stderr: cannot start with ***"
        in results
    )
    assert TOKEN not in results + finished.stdout + finished.stderr


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"command": "uvx"}, "tools.shop.command: uvx is not on the PATH; install uv"),
        ({"env_file": "absent.env"}, "tools.shop.env_file: absent.env cannot be read: No such file or directory"),
        (
            {"transport": "websocket", "url": "wss://shop.example/mcp"},
            "tools.shop.transport: websocket is not a transport",
        ),
    ],
)
def test_what_cannot_work_is_said_before_anything_runs(
    project: Project, models: FakeModels, entry: dict[str, Any], sentence: str
) -> None:
    asking(project, models, tools=[mcp("shop", SHOP, **entry)])
    path = str(project.folder) if "command" in entry else path_with_npx(project.folder)
    finished = project.run("run", PATH=path, OPENAI_API_KEY=KEY)
    assert finished.code == 2, finished.stdout + finished.stderr
    assert sentence in finished.stderr
    assert models.requests == []


@pytest.mark.full
def test_secrets_of_servers_are_hidden_wherever_they_come_up(project: Project, models: FakeModels) -> None:
    project.write("shop.env", f"# the shop's own\nSHOP_FILE_TOKEN={FILE_TOKEN}\nSHOP_REGION = north \n")
    entry = mcp("shop", SHOP, env={"SHOP_TOKEN": "${PLANTED}"}, env_file="shop.env")
    asking(
        project, models, tools=[entry, {**mcp("rude", RUDE), "headers": {"Authorization": f"Bearer {HEADER_TOKEN}"}}]
    )
    names = ("SHOP_TOKEN", "SHOP_FILE_TOKEN", "SHOP_REGION", "GITHUB_TOKEN")
    models.script([*(calling("variable", of=name) for name in names), calling("act", said=HEADER_TOKEN), "echo: ping"])
    finished, record = evaluated(project, "--record", "tape", PLANTED=TOKEN, GITHUB_TOKEN="ghs_planted_1234567890")
    assert finished.code == 0, finished.stdout + finished.stderr
    # The servers have them, but for the job's own.
    assert [request.results[-1] for request in models.requests[1:5]] == [TOKEN, FILE_TOKEN, "north", "(not set)"]
    assert [call.result for call in invocations(record)][:4] == ["***", "***", "north", "(not set)"]
    for secret in (TOKEN, FILE_TOKEN, HEADER_TOKEN):
        assert secret not in finished.stdout + finished.stderr
        written = {name for name, data in files_below(project.folder).items() if secret.encode() in data}
        assert written <= {"shop.env", "agent.yaml"}
    assert "tools.rude: headers has no effect on transport stdio" in finished.stderr
    assert_hidden(project, finished)


@pytest.mark.full
@pytest.mark.races
@pytest.mark.parametrize("manners", [("stubborn",), ("stubborn", "silent")])
def test_a_run_that_is_ended_leaves_no_process(project: Project, models: FakeModels, manners: tuple[str, ...]) -> None:
    asking(project, models, tools=[mcp("rude", RUDE, "hangs", *manners)])
    models.answer(lambda _: calling("act"))
    pids = project.folder / "pids.json"
    process = project.start("run", "-o", "out", PATH=path_with_npx(project.folder), OPENAI_API_KEY=KEY)
    with process:
        project.wait_until(lambda: pids.exists() and (len(models.requests) == 1 or "silent" in manners))
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode in (3, 4), stdout + stderr
    assert "Traceback" not in stdout + stderr
    assert [pid for pid in json.loads(pids.read_text()) if running(pid)] == []


@pytest.mark.full
def test_a_package_that_is_missing_is_named(project: Project, models: FakeModels) -> None:
    asking(project, models, tools=[mcp("shop", SHOP)])
    code = "import sys; sys.modules['mcp'] = None; from holodeck_action.cli import start; start()"
    environ = project.environ(PATH=path_with_npx(project.folder), OPENAI_API_KEY=KEY)
    ended = {
        command: subprocess.run(
            [sys.executable, "-c", code, command],
            cwd=project.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        for command in ("run", "validate")
    }
    assert [each.returncode for each in ended.values()] == [2, 0]
    for each in ended.values():
        assert "mcp: tools of this type need a package that is not installed (mcp)" in each.stderr
        assert "pip install 'holodeck-action[agents]'" in each.stderr
    assert models.requests == []
