"""HoloDeck's sample suites, run whole: their model, their tools and their judges are a scripted server on loopback.

Changed in the copies: the one configuration key that HoloDeck's own schema does not know, the address of Ollama, and
the MCP server that npx would download, for which a local one stands in.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import Record
from tests.commands.project import Project
from tests.extensions.mcp.mcp_servers.starting import SHOP, path_with_npx
from tests.llm.models import KEY, Answer, FakeModels, Request, ToolCall
from tests.llm.models.rules import least

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
SEARCHES = {
    "content-moderation": ("moderation_rules_search", "category_definitions_search"),
    "customer-support": ("knowledge_base_search", "faq_search", "product_catalog_search"),
    "ticket-routing": ("ticket_categories_search",),
}


def answered(request: Request) -> Answer | dict[str, Any]:
    """Play the agent, which calls every tool once and then answers, and the judges, whom everything pleases."""
    if request.operation == "embeddings":
        # Everything is near to everything: what is found does not depend on words.
        return Answer(vectors=tuple((1.0, 0.0, 0.0) for _ in request.inputs))
    if request.tools:
        if request.results:
            return Answer(json.dumps(least(request.schema)) if request.schema else "As the documents say.")
        calls = [
            ToolCall(name, {"order": "A-17"} if name == "find_order" else {"query": request.text})
            for name in request.tools
            if name.endswith("_search") or name == "find_order"
        ]
        return Answer(tools=tuple(calls))
    return judged(request)


pytestmark = [pytest.mark.needs("deepeval", "knowledge"), pytest.mark.models(answer=answered)]


def judged(request: Request) -> Answer | dict[str, Any]:
    asked = set(((request.schema or {}).get("properties") or {}).keys())
    if not asked or "score" in asked:
        return Answer('{"reason": "it is right", "score": 9}')
    if asked == {"verdicts"}:
        verdict = {"verdict": "yes", "reason": "it is", "statement": "As the documents say."}
        wanted = json.dumps(request.schema)
        return {"verdicts": [{name: text for name, text in verdict.items() if f'"{name}"' in wanted}]}
    (name,) = asked
    return {name: "it is right" if name == "reason" else ["As the documents say."]}


def copied(name: str, project: Project, models: FakeModels) -> dict[str, str]:
    """Copy a sample to run it against the server; return its environment."""
    shutil.copytree(SAMPLES / name, project.folder, dirs_exist_ok=True)
    for file in ("agent.yaml", "config.yaml"):
        path = project.folder / file
        text = path.read_text(encoding="utf-8")
        text = text.replace("cache_directory", "cache_dir").replace("http://localhost:11434", models.ollama_url)
        path.write_text(
            re.sub(r"(\s+)- \"?-y\"?\s+- ['\"]?@modelcontextprotocol/server-memory['\"]?", rf"\1- {SHOP}", text)
        )
    return {
        "PATH": path_with_npx(project.folder),
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": models.openai_url,
        "AZURE_OPENAI_API_KEY": KEY,
        "AZURE_OPENAI_ENDPOINT": models.azure_url,
    }


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(str(path.parent.relative_to(SAMPLES)) for path in SAMPLES.rglob("agent.yaml")))
def test_a_sample_runs_with_its_tools_and_its_judges(name: str, project: Project, models: FakeModels) -> None:
    environ = copied(name, project, models)
    finished, record = project.evaluate("--record", "cassette", **environ)
    assert finished.code == 0, finished.stdout + finished.stderr
    for case in record.cases:
        check(name.partition("/")[0], case.trials[0].turns[0])
    shown_to_judges(record, models)
    asked = len(models.requests)
    # Without network and keys the recording gives the same.
    environ |= {"OPENAI_API_KEY": "", "AZURE_OPENAI_API_KEY": "none"}
    again, replayed = project.evaluate("--replay", "cassette", **environ)
    assert again.code == 0, again.stdout + again.stderr
    assert len(models.requests) == asked
    assert canonical_json(replayed) == canonical_json(record)


def check(kind: str, turn: Any) -> None:
    """The record shows calls, chunks, usage and judgements."""
    called = [call.name for call in turn.tool_invocations]
    assert sorted(called) == sorted([*SEARCHES[kind], *(["find_order"] if kind == "customer-support" else [])])
    assert all(call.error is None and call.bytes and call.duration_ms is not None for call in turn.tool_invocations)
    assert turn.retrieved_chunks
    assert all(chunk.id and chunk.score == 1.0 for chunk in turn.retrieved_chunks)
    assert turn.retrieval_context == tuple(chunk.text for chunk in turn.retrieved_chunks)
    assert turn.usage.prompt_tokens > 0
    assert turn.usage.completion_tokens > 0
    assert {found.status for found in turn.evaluations} == {"completed"}
    faithfulness = next(found for found in turn.evaluations if found.evaluator_name == "faithfulness")
    assert (faithfulness.score, faithfulness.metadata["claims_count"]) == (1.0, 1)


def shown_to_judges(record: Record, models: FakeModels) -> None:
    """What the tools of a case found is what its judges are shown, chunk by chunk."""
    shown = [request.text for request in models.requests if request.operation == "chat" and not request.tools]
    for turn in (case.trials[0].turns[0] for case in record.cases):
        found = "\n\n".join(turn.retrieval_context or ())
        assert any(found in text for text in shown if "truths" in text)
        relevancy = [each for each in turn.evaluations if each.evaluator_name == "contextual_relevancy"]
        assert all(each.metadata["total_chunks"] == len(turn.retrieved_chunks or ()) for each in relevancy)
