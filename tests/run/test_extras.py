"""The extras that a suite needs are known from its files, and `validate` prints them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from tests.commands.project import Project

KEY = {"OPENAI_API_KEY": "k", "AZURE_OPENAI_API_KEY": "k"}
CASES = [{"name": "a", "input": "?", "ground_truth": "1"}]
GEVAL = {"type": "geval", "name": "Polite", "criteria": "The answer is polite.", "threshold": 0.5}
DEPLOYED = {
    "provider": "azure_openai",
    "name": "gpt-4o",
    "endpoint": "https://x.openai.azure.com",
    "api_version": "2024-10-21",
}
AZURE = {"type": "standard", "metric": "fluency", "threshold": 0.5, "model": DEPLOYED}
SHOP = {"type": "mcp", "name": "shop", "description": "Orders.", "command": "npx", "args": ["shop"]}
GUIDES = {"type": "vectorstore", "name": "guides", "description": "Guides.", "source": "guides"}
SPANS = {
    "enabled": True,
    "traces": {},
    "exporters": {"otlp": {"endpoint": "http://127.0.0.1:4318", "protocol": "http"}},
}


def needs(project: Project) -> str | None:
    """Return what `validate` says that the suite needs; None if it says nothing."""
    ended = project.run("validate", **KEY)
    lines = ended.stdout.splitlines()
    assert ended.code == 0, ended.stderr
    return lines[1].removeprefix("agent.yaml: needs the ") if lines[1:] else None


@pytest.mark.needs("azure", "deepeval", "knowledge", "mcp", "tracing")
@pytest.mark.parametrize(
    ("given", "needed"),
    [
        ({}, None),
        ({"metrics": [GEVAL]}, "extra: judges (metric Polite)"),
        ({"metrics": [{**GEVAL, "enabled": False}, {"type": "standard", "metric": "equality"}]}, None),
        (
            {"metrics": [AZURE, GEVAL, {**GEVAL, "name": "Kind"}], "tools": [SHOP], "observability": SPANS},
            "extras: agents (tool shop), azure (metric fluency), judges (metric Polite, metric Kind), "
            "otel (observability)",
        ),
        ({"observability": {**SPANS, "traces": {"enabled": False}}}, None),
        ({"tools": [GUIDES]}, "extra: files (file b.pdf of the tool guides)"),
        (
            {"cases": [{**CASES[0], "files": [{"path": "guides/b.pdf", "type": "pdf"}]}]},
            "extra: files (file guides/b.pdf)",
        ),
        ({"cases": [{**CASES[0], "files": [{"path": "guides/a.md", "type": "text"}]}]}, None),
    ],
    ids=["text", "geval", "disabled", "several", "traces are off", "tool", "pdf", "text file"],
)
def test_a_suite_says_what_it_needs(project: Project, given: dict[str, Any], needed: str | None) -> None:
    project.write("guides/a.md", "# A")
    project.write("guides/b.pdf", "%PDF-")
    project.suite(given.pop("cases", CASES), given.pop("metrics", None), **given)
    assert needs(project) == needed


@pytest.mark.needs("mcp")
def test_tools_count_only_for_the_suites_own_model(project: Project) -> None:
    project.suite(CASES, tools=[SHOP])
    project.answers([{"case": "a", "response": "1"}])
    project.policy(target="recorded:answers.jsonl")
    assert needs(project) is None


@pytest.mark.full
@pytest.mark.needs("parquet")
def test_a_table_needs_its_extra(project: Project) -> None:
    project.suite(CASES, test_cases_file="cases.parquet")
    given = json.loads((project.folder / "agent.yaml").read_text())
    del given["test_cases"]
    project.write("agent.yaml", json.dumps(given))
    pyarrow.parquet.write_table(
        pyarrow.table({"input": ["?"], "ground_truth": ["1"]}), project.folder / "cases.parquet"
    )
    assert needs(project) == "extra: parquet (file cases.parquet)"
