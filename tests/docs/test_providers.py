"""The blocks of docs/providers.md: each is asked as agent, judge and embeddings, with the variables that it names."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
import yaml

from holodeck_action.suite.model.providers import ADDRESS_VARIABLES, ProviderName
from tests.commands.project import Project
from tests.docs.pages import ROOT, blocks
from tests.llm.models import KEY, Answer, FakeModels, Request, ToolCall

PAGE = ROOT / "docs" / "providers.md"
SUITE, FRAGMENTS = (
    [yaml.safe_load(block.text) for block in blocks(PAGE) if block.mark == mark] for mark in ("agent.yaml", "fragment")
)
SECTIONS = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
TITLES = [section.partition("\n")[0] for section in SECTIONS]
Document = dict[str, Any]


def _answer(request: Request) -> Answer:
    if "Look for rude words." in str(request.body):
        return Answer('{"reason": "polite", "score": 9}')
    if request.tools and not request.results:
        return Answer(tools=(ToolCall("returns_search", {"query": "return"}),))
    return Answer("Within 30 days.")


def _variables(named: list[str], models: FakeModels) -> dict[str, str]:
    """Return keys and addresses for the variables that a section names, and the places of all services."""
    places: dict[str, str] = dict.fromkeys(ADDRESS_VARIABLES.values(), models.openai_url)
    places |= {"ANTHROPIC_BASE_URL": models.anthropic_url, "OLLAMA_BASE_URL": models.ollama_url}
    for name in named:
        if name == "AZURE_OPENAI_ENDPOINT":
            places[name] = models.azure_url
        elif name.endswith("_URL"):
            places.setdefault(name, models.openai_url)
        else:
            places[name] = KEY
    return places


def test_there_is_one_block_for_each_provider() -> None:
    assert len(SUITE) == 1
    named = [fragment["model"]["provider"] for fragment in FRAGMENTS]
    # The last two are other servers that speak OpenAI's language.
    assert named == [*get_args(ProviderName), "openai", "openai"]
    assert len(TITLES) == len(named)


@pytest.mark.needs
@pytest.mark.parametrize("number", range(len(TITLES)), ids=TITLES)
def test_agent_judge_and_embeddings_are_asked(project: Project, number: int) -> None:
    fragment: Document = FRAGMENTS[number]
    suite: Document = {**SUITE[0], **fragment, "evaluations": {**SUITE[0]["evaluations"], **fragment["evaluations"]}}
    asked = {("chat", model["name"]) for model in (fragment["model"], fragment["evaluations"]["model"])}
    if "embedding_provider" in fragment:
        asked |= {("embeddings", fragment["embedding_provider"]["name"])}
    else:
        del suite["embedding_provider"], suite["tools"]
    project.write("returns.md", "You can return a parcel within 30 days of delivery.\n")
    project.write("agent.yaml", yaml.safe_dump(suite, sort_keys=False))
    named = re.findall(r"`([A-Z]+_[A-Z_]+)`", SECTIONS[number])
    keys = [name for name in named if not name.endswith(("_URL", "_ENDPOINT"))]
    with FakeModels(keys=[KEY] if keys else None) as models:
        models.answer(_answer)
        variables = _variables(named, models)
        validated = project.run("validate", **variables)
        assert validated.code == 0, validated.stderr
        ran, record = project.evaluate(**variables)
        assert ran.code == 0, ran.stdout + ran.stderr
        assert {(request.operation, request.model) for request in models.requests} == asked
        [turn] = record.cases[0].trials[0].turns
        assert turn.response == "Within 30 days."
        assert bool(turn.tool_invocations) is ("tools" in suite)
        for key in keys:
            others = {name: value for name, value in variables.items() if name != key}
            assert project.run("run", "-o", "other", **others).code in (2, 3), f"{key} is not needed"
        assert models.violations == []
