"""The extras that the first pages name, installed from an index: each opens its door, on every version of Python."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.docs.pages import ROOT
from tests.extensions.mcp.mcp_servers.starting import mcp, served
from tests.github.fake import FakeGitHub, Token
from tests.llm.models import KEY, Answer, FakeModels, Request, ToolCall
from tests.release.machine import NAME, Machine, python, versions, with_uvx
from tests.release.package_index import PackageIndex
from tests.workers.installing import uv

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

FIRST_PAGES = ("README.md", "docs/getting-started.md", "docs/dependencies.md", "docs/first-real-run.md")
HEAD = "1" * 40


def _named() -> set[str]:
    """The extras in the commands of the first pages."""
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in FIRST_PAGES]
    lists = re.findall(rf"{NAME}\[([a-z,]+)\]", "\n".join(texts))
    return {extra for listed in lists for extra in listed.split(",")}


def _answer(request: Request) -> Answer:
    """Answer as a model that asks for the tool first, and as a judge that is pleased."""
    if request.schema is not None or "score" in request.text:
        return Answer(json.dumps({"score": 10, "reason": "It names the place."}))
    if request.messages[-1].role == "tool":
        return Answer("It is in Leeds.")
    return Answer(tools=(ToolCall("find_order", {"order": "A-17"}),))


@pytest.mark.parametrize("version", versions())
@pytest.mark.models(answer=_answer)
def test_each_opens_its_door(tmp_path: Path, index: PackageIndex, models: FakeModels, version: str) -> None:
    """A suite's model calls a tool of an MCP server, DeepEval grades the answer, and the run is published."""
    assert _named() == {"agents", "github", "judges"}, "extend this test by the extra that a page names now"
    machine = Machine(tmp_path, index, python(version), f"[{','.join(sorted(_named()))}]")
    program = with_uvx(machine)
    found = re.search(r"extras: ([a-z, ]*)", machine.do(*program, "doctor"))
    assert found is not None
    assert _named() <= set(found[1].split(", "))
    project = Project(tmp_path / "work")
    with served(tmp_path, "streamable-http") as shop:
        tool = mcp("shop", transport="http", url=shop.url, headers={"X-Shop": "open"})
        model = {"provider": "openai", "name": "gpt-4o-mini", "endpoint": models.openai_url, "api_key": KEY}
        geval = {"type": "geval", "name": "Place", "criteria": "The answer names a place.", "threshold": 0.5}
        geval["evaluation_steps"] = ["Look for the name of a place."]
        suite = {
            "name": "shop",
            "model": model,
            "instructions": {"inline": "You answer customers of a shop."},
            "tools": [tool],
            "evaluations": {"model": model, "metrics": [geval]},
            "test_cases": [{"name": "order", "input": "Where is A-17?", "expected_tools": ["find_order"]}],
        }
        project.write("agent.yaml", yaml.safe_dump(suite))
        project.write(".git/HEAD", f"{HEAD}\n")
        machine.do(*program, "run", "-o", "results")
    record = read_record(project.folder / "results" / "results.json")
    [call] = record.cases[0].trials[0].turns[0].tool_invocations or ()
    assert (call.name, call.result) == ("find_order", "A-17 is in Leeds")
    assert [each.score for each in record.evaluations if each.evaluator_name == "Place"] == [1.0]

    with FakeGitHub() as hub:
        repository = hub.add_repository("octo/shop")
        repository.add_pull(7, head_sha=HEAD, branch="topic")
        hub.add_token("ghp_mine", Token("alice", "classic", {"pull_requests": "write", "contents": "read"}))
        given = ("--repository", "octo/shop", "--pull-request", "7", "--no-check")
        machine.do(*program, "publish", "results", *given, GITHUB_TOKEN="ghp_mine", GITHUB_API_URL=hub.url)
        [comment] = repository.comments(7)
        assert "1 of 1 passed" in comment["body"]
        assert hub.take_violations() == []


@pytest.mark.parametrize("version", versions())
def test_all_can_be_installed_together(tmp_path: Path, index: PackageIndex, version: str) -> None:
    """Every package has a wheel for this version, but for the one that is built of plain Python."""
    machine = Machine(tmp_path, index, python(version))
    environment = tmp_path / "environment"
    machine.do(uv(), "venv", "--quiet", "--no-project", "--python", machine.python, environment)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ",".join(project["optional-dependencies"])
    wheels = ("--only-binary", ":all:", "--no-binary", "rouge-score")
    given = ("--dry-run", *wheels, "--python", environment, f"{NAME}[{extras}]")
    ended = machine.call(uv(), "pip", "install", *given)
    assert ended.returncode == 0, ended.stderr
    assert f" + {NAME}==" in ended.stderr
