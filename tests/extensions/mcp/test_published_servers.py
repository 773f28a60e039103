"""MCP servers from the registries of packages, whose tools a scripted model calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Project
from tests.extensions.mcp.test_mcp import invocations
from tests.llm.models import KEY, FakeModels
from tests.real.runs import PATIENT
from tests.release.machine import not_tried
from tests.targets.test_own import asking, calling
from tests.workers.installing import uv

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

NPX = "@modelcontextprotocol/server-"


@dataclass(frozen=True)
class Scripted:
    """A server, and calls of its tools with what their results contain.

    Attributes:
        command: the program that starts the package.
        package: the package with its version.
        calls: tool, arguments, and a text of the result.
        args: arguments of the server.
        env: variables of the server; `{folder}` is the folder of the suite.
    """

    command: str
    package: str
    calls: tuple[tuple[str, Mapping[str, Any], str], ...]
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def probe(self) -> tuple[str, ...]:
        """The command line by which the package is installed and ends at once."""
        return ("uvx", self.package, "--help") if self.command == "uvx" else ("npm", "view", self.package, "version")


NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
LAMP = {"name": "lamp", "entityType": "product", "observations": ["costs 30 euros"]}
SERVERS = {
    "time": Scripted(
        "uvx",
        "mcp-server-time@2026.10.19",
        (("convert_time", NOON, "21:00"), ("get_current_time", {"timezone": "Nowhere"}, "Nowhere")),
    ),
    "git": Scripted(
        "uvx",
        "mcp-server-git@2026.10.19",
        (("git_log", {"repo_path": "."}, "Open the shop"), ("git_status", {"repo_path": "."}, "On branch main")),
    ),
    "filesystem": Scripted(
        "npx",
        f"{NPX}filesystem@2026.8.31",
        (
            ("list_directory", {"path": "."}, "[FILE] prices.txt"),
            ("read_text_file", {"path": "prices.txt"}, "lamp: 30"),
            ("read_text_file", {"path": "/etc/passwd"}, "outside allowed directories"),
        ),
        ("./",),
    ),
    "everything": Scripted(
        "npx",
        f"{NPX}everything@2026.8.31",
        (("echo", {"message": "good morning"}, "Echo: good morning"), ("get-sum", {"a": 17, "b": 25}, "42")),
    ),
    "memory": Scripted(
        "npx",
        f"{NPX}memory@2026.8.31",
        (("create_entities", {"entities": [LAMP]}, "lamp"), ("search_nodes", {"query": "euros"}, "costs 30 euros")),
        env={"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
    ),
}


@pytest.mark.parametrize("name", SERVERS)
def test_the_tools_of_a_published_server_are_called(project: Project, models: FakeModels, name: str) -> None:
    server = SERVERS[name]
    path = os.pathsep.join([str(uv().parent), os.environ["PATH"]])
    environ = {"PATH": path, "HOME": os.environ["HOME"]}
    _installed(server, path)
    project.write("prices.txt", "lamp: 30\n")
    _commit(project.folder)
    options = ("-y",) if server.command == "npx" else ()
    entry = {"type": "mcp", "name": name, "description": "A server.", "command": server.command}
    env = {key: value.format(folder=project.folder) for key, value in server.env.items()}
    args = [*options, server.package, *server.args]
    asking(project, models, tools=[{**entry, "args": args, "env": env, "request_timeout": 600}])
    project.policy(limits=PATIENT)
    models.script([*(calling(tool, **arguments) for tool, arguments, _ in server.calls), "echo: ping"])
    finished, record = project.evaluate(OPENAI_API_KEY=KEY, **environ)
    assert finished.code == 0, finished.stdout + finished.stderr
    made = invocations(record)
    assert [call.name for call in made] == [tool for tool, _, _ in server.calls]
    seen = [request.results for request in models.requests[1:]]
    for call, (_, arguments, text), results in zip(made, server.calls, seen, strict=True):
        assert call.args == arguments
        assert text in str(call.result if call.error is None else call.error)
        assert [text in result for result in results] == [True], results


def _installed(server: Scripted, path: str) -> None:
    """Skip the test if the machine lacks the program, or the registry the package."""
    if shutil.which(server.command, path=path) is None:
        not_tried(f"THE MCP SERVER {server.package}: {server.command} is not on the PATH")
    environ = {**os.environ, "PATH": path}
    ended = subprocess.run(server.probe, env=environ, capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        not_tried(f"THE MCP SERVER {server.package}: {lines[-1] if lines else 'it cannot be installed'}")


def _commit(folder: Path) -> None:
    identity = ("-c", "user.name=octo", "-c", "user.email=octo@example.com")
    for arguments in (
        ("init", "--quiet", "--initial-branch", "main"),
        ("add", "prices.txt"),
        (*identity, "commit", "--quiet", "--message", "Open the shop"),
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)
