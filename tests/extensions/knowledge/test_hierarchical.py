"""Structured documents behind `run` and as a toolkit: real files, a model server that embeds, writes and judges."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from holodeck_action.extensions.knowledge.hierarchical import HierarchicalDocuments
from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.providers import ModelConfigError, resolve_model
from holodeck_action.llm.wire import Wire, WireSettings
from holodeck_action.metrics.registry import built_in
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.record.record import Record, TurnRecord
from holodeck_action.suite.loader import load_suite
from holodeck_action.targets.own_model.toolbox import ToolError, ToolResult, chunks_of
from tests.commands.project import Project
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request, ToolCall
from tests.targets.conversations import run
from tests.targets.documents.made import pdf

HANDBOOK = """# Handbook

Read it.

## 1 Definitions

"Token" means a string that opens a session.

## 4 Access

### 4.1 Passwords

Passwords change every 90 days. See section 4.2.

### 4.2 Sessions

A Token opens one session and lasts one hour.

## 7 Travel

Trains come before planes.
"""
PLAIN = {"contextual_embeddings": False, "extract_definitions": False, "extract_cross_references": False}
"""Fields that leave only search."""
IDS = ["handbook.md#handbook", "handbook.md#1", "handbook.md#4.1", "handbook.md#4.2", "handbook.md#7"]


def helper(
    context: str = "It is a rule.", scores: Any = None, query: str = "how long is a session"
) -> Callable[..., Answer]:
    """Write contexts, judge passages, and as the agent search once and answer with what the search says."""

    def rule(request: Request) -> Answer:
        if request.operation == "embeddings":
            return Answer()
        if request.text.startswith("<document>"):
            return Answer(context)
        if request.text.startswith("<query>"):
            return Answer(scores if isinstance(scores, str) else json.dumps({"scores": scores}))
        if request.results:
            return Answer(request.results[0])
        return Answer(tools=(ToolCall("rules_search", {"query": query}),))

    return rule


pytestmark = pytest.mark.models(answer=helper())


def openai(models: FakeModels, name: str = "gpt-4o", **more: Any) -> dict[str, Any]:
    return {"provider": "openai", "name": name, "endpoint": models.openai_url, **more}


def write(project: Project, models: FakeModels, **fields: Any) -> None:
    """Write a suite with one tool, and its handbook unless there is one."""
    if not (project.folder / "handbook.md").exists():
        project.write("handbook.md", HANDBOOK)
    tool = {"type": "hierarchical_document", "name": "rules", "description": "The rules", "source": "handbook.md"}
    top = {name: fields.pop(name) for name in ("embedding_provider", "model", "more_tools") if name in fields}
    top.setdefault("model", openai(models))
    tools = [{**tool, **fields}, *top.pop("more_tools", [])]
    cases = [{"name": "one", "input": "?", "ground_truth": "?", "expected_tools": ["rules_search"]}]
    project.suite(cases, [{"type": "standard", "metric": "meteor"}], tools=tools, **top)


@dataclass
class Opened:
    """What a search gave, and what it took."""

    results: list[ToolResult]
    notices: tuple[str, ...]

    @property
    def hits(self) -> list[dict[str, Any]]:
        return list(self.results[0].value)

    @property
    def ids(self) -> list[str]:
        return [hit["id"] for hit in self.hits]

    @property
    def texts(self) -> list[str]:
        return [hit["text"] for hit in self.hits]


def opened(project: Project, models: FakeModels, *queries: str, max_bytes: int = 100_000, **fields: Any) -> Opened:
    """Open the tool of a suite over the wire and search."""
    write(project, models, **fields)
    suite = load_suite(project.folder / "agent.yaml", environ={}, home=None, metrics=built_in())
    environ = {"OPENAI_API_KEY": KEY}
    plan = resolve_model(suite.agent.model, environ)

    wire = Wire(WireSettings(max_retries=0, rate_limit_wait_s=0))
    toolkit = HierarchicalDocuments(suite, plan, environ, wire)

    async def search() -> list[ToolResult]:
        try:
            tools = await toolkit.open()
            CALL.set(CallContext("agent", 3, None, Meter()))
            return [
                await tools[0].call({"query": query}, "one", max_bytes=max_bytes, timeout_s=20.0) for query in queries
            ]
        finally:
            await toolkit.close()
            await wire.close()

    return Opened(run(search()), toolkit.notices)


def chats(models: FakeModels, beginning: str = "") -> list[Request]:
    return [each for each in models.requests if each.operation == "chat" and each.text.startswith(beginning)]


def embedded(models: FakeModels) -> list[str]:
    return [text for each in models.requests if each.operation == "embeddings" for text in each.inputs]


# -- what is searched


@pytest.mark.proves("HierarchicalDocumentTool: type")
def test_sections_of_a_file(project: Project, models: FakeModels) -> None:
    found = opened(project, models, "session token", **PLAIN)
    assert found.ids[0] == "handbook.md#4.2"
    assert {*found.ids} <= {*IDS}
    assert found.hits[0] == {
        "id": "handbook.md#4.2",
        "text": "Handbook > 4 Access > 4.2 Sessions\n\nA Token opens one session and lasts one hour.",
        "score": found.hits[0]["score"],
        "source": "handbook.md",
        "section": "Handbook > 4 Access > 4.2 Sessions",
    }
    assert [chunk.id for chunk in chunks_of(found.results[0].value)] == found.ids
    assert (found.results[0].for_model or "").startswith(
        f"Found {len(found.hits)} results:\n\n[1] handbook.md#4.2 (score {found.hits[0]['score']:.3f})\n"
    )


@pytest.mark.proves("HierarchicalDocumentTool: source")
def test_a_folder_of_documents(project: Project, models: FakeModels) -> None:
    project.write("docs/rules/one.md", "# One\n\nfirst pump")
    project.write("docs/two.txt", "second pump")
    project.write("docs/page.html", "<h1>Three</h1><p>third pump</p>")
    project.write("docs/image.png", b"\x89PNG")
    found = opened(project, models, "pump", source="docs", **PLAIN)
    assert sorted(found.ids) == ["page.html#three", "rules/one.md#one", "two.txt#top"]
    assert "tools.rules: not searched: image.png" in found.notices


@pytest.mark.proves("HierarchicalDocumentTool: chunking_strategy")
def test_chunking_strategy(project: Project, models: FakeModels) -> None:
    assert opened(project, models, "session", chunking_strategy="token", **PLAIN).ids == ["handbook.md#1"]
    assert len(opened(project, models, "session", chunking_strategy="structure", **PLAIN).ids) > 1


@pytest.mark.proves("HierarchicalDocumentTool: max_chunk_tokens chunk_overlap")
def test_the_size_of_chunks_and_their_overlap(project: Project, models: FakeModels) -> None:
    project.write("handbook.md", "# Long\n\n" + "\n\n".join(f"Paragraph {n} is about pumps." for n in range(100)))
    keyword: dict[str, Any] = {"search_mode": "keyword", "top_k": 100, **PLAIN}
    few = opened(project, models, "pumps", max_chunk_tokens=400, chunk_overlap=0, **keyword)
    many = opened(project, models, "pumps", max_chunk_tokens=100, chunk_overlap=0, **keyword)
    overlapping = opened(project, models, "pumps", max_chunk_tokens=100, chunk_overlap=50, **keyword)
    assert len(few.ids) < len(many.ids) < len(overlapping.ids)


@pytest.mark.proves("HierarchicalDocumentTool: document_domain max_subsection_depth")
def test_the_domain_and_the_depth_of_headings(project: Project, models: FakeModels) -> None:
    project.write("law.txt", "§ 1.2 Records\nKept.\n(a) Pumps shall be listed.\n(1) By name.\n")
    law: dict[str, Any] = {"source": "law.txt", "search_mode": "keyword", **PLAIN}
    query = "pumps name"
    assert opened(project, models, query, document_domain="us_legislative", **law).ids == [
        "law.txt#1.2(a)(1)",
        "law.txt#1.2(a)",
    ]
    assert opened(project, models, query, document_domain="us_legislative", max_subsection_depth=2, **law).ids == [
        "law.txt#1.2(a)"
    ]
    assert opened(project, models, query, **law).ids == ["law.txt#top"]


# -- how it is searched


@pytest.mark.proves("HierarchicalDocumentTool: search_mode")
def test_keyword_search_asks_no_model(project: Project, models: FakeModels) -> None:
    found = opened(project, models, "trains", "unknown", search_mode="keyword")
    assert found.ids == ["handbook.md#7"]
    assert 0.0 < found.hits[0]["score"] < 1.0
    assert found.results[1].value == []
    assert (found.results[1].for_model or "").startswith("No results found")
    assert models.requests == []


@pytest.mark.proves("HierarchicalDocumentTool: search_mode")
def test_semantic_search_is_by_the_vectors(project: Project, models: FakeModels) -> None:
    vectors = {"trains": (0.0, 1.0), "7 Travel": (0.6, 0.8), "4.1": (0.8, 0.6)}

    def rule(request: Request) -> Answer:
        found = [next((v for name, v in vectors.items() if name in text), (1.0, 0.0)) for text in request.inputs]
        return Answer(vectors=tuple(found))

    models.answer(rule)
    found = opened(project, models, "trains", search_mode="semantic", **PLAIN)
    assert [(hit["id"], hit["score"]) for hit in found.hits] == [("handbook.md#7", 0.8), ("handbook.md#4.1", 0.6)]


@pytest.mark.proves("HierarchicalDocumentTool: semantic_weight keyword_weight exact_weight")
def test_the_weights_of_hybrid_search(project: Project, models: FakeModels) -> None:
    # By meaning the last section is first, by words and by number others are.
    def rule(request: Request) -> Answer:
        return Answer(
            vectors=tuple((1.0, 0.1) if "Travel" in t or "4.1" in t[:5] else (0.1, 1.0) for t in request.inputs)
        )

    models.answer(rule)

    def best(semantic: float, keyword: float, exact: float, query: str = "4.1 hour") -> str:
        weights: dict[str, Any] = {"semantic_weight": semantic, "keyword_weight": keyword, "exact_weight": exact}
        return opened(project, models, query, **weights, **PLAIN).ids[0]

    assert best(1.0, 0.0, 0.0) == "handbook.md#7"
    assert best(0.0, 1.0, 0.0, "lasts hour") == "handbook.md#4.2"
    assert best(0.1, 0.0, 0.9) == "handbook.md#4.1"


def test_without_semantic_weight_nothing_is_embedded(project: Project, models: FakeModels) -> None:
    opened(project, models, "hour", semantic_weight=0, keyword_weight=0.5, exact_weight=0.5)
    assert models.requests == []


@pytest.mark.proves("HierarchicalDocumentTool: semantic_weight keyword_weight exact_weight rrf_k")
def test_the_fused_score_is_the_formula(project: Project, models: FakeModels) -> None:
    weights: dict[str, Any] = {"semantic_weight": 0.0, "keyword_weight": 0.75, "exact_weight": 0.25}
    for k in (60, 2):
        found = opened(project, models, "section 4.2 trains", rrf_k=k, **weights, **PLAIN)
        by_id = {hit["id"]: hit["score"] for hit in found.hits}
        # 4.1 speaks of section 4.2 and has both words, 4.2 has the number, 7 the trains.
        assert by_id["handbook.md#4.2"] == pytest.approx((k + 1) * (0.75 / (k + 3) + 0.25 / (k + 1)), abs=1e-6)
        assert by_id["handbook.md#4.1"] == pytest.approx((k + 1) * (0.75 / (k + 1)), abs=1e-6)


@pytest.mark.proves("HierarchicalDocumentTool: top_k min_score")
def test_top_k_and_min_score(project: Project, models: FakeModels) -> None:
    every = opened(project, models, "session token passwords", **PLAIN)
    assert len(every.hits) > 2
    assert opened(project, models, "session token passwords", top_k=2, **PLAIN).hits == every.hits[:2]
    least = every.hits[1]["score"]
    assert opened(project, models, "session token passwords", min_score=least, **PLAIN).hits == [
        hit for hit in every.hits if hit["score"] >= least
    ]


# -- contexts


@pytest.mark.proves("HierarchicalDocumentTool: contextual_embeddings")
def test_contexts_are_written_and_embedded(project: Project, models: FakeModels) -> None:
    found = opened(project, models, "session")
    asked = chats(models, "<document>")
    assert len(asked) == len(IDS)
    assert {request.model for request in asked} == {"gpt-4o"}
    assert all(HANDBOOK in request.text for request in asked)
    assert all(text.startswith("It is a rule.\n\nHandbook") for text in embedded(models)[:-1])
    # The context is for the vectors; what is found is the document's own text.
    assert all("It is a rule." not in text for text in found.texts)
    assert [notice for notice in found.notices if "calls" in notice] == [
        "tools.rules: contextual_embeddings makes 5 calls of OpenAI model gpt-4o before the first case, "
        "one for each chunk; contextual_embeddings: false saves them"
    ]
    assert "calls" not in str(opened(project, models, "session", contextual_embeddings=False).notices)
    assert len(chats(models, "<document>")) == len(IDS)


@pytest.mark.proves("HierarchicalDocumentTool: context_max_tokens context_model")
def test_another_model_writes_contexts_of_a_length(project: Project, models: FakeModels) -> None:
    opened(project, models, "session", context_model=openai(models, "gpt-4o-mini"), context_max_tokens=60)
    asked = chats(models, "<document>")
    assert {(request.model, request.body["max_tokens"]) for request in asked} == {("gpt-4o-mini", 60)}


@pytest.mark.proves("HierarchicalDocumentTool: context_concurrency")
@pytest.mark.parametrize("most", [1, 3])
def test_contexts_at_once(project: Project, models: FakeModels, most: int) -> None:
    models.latency = 0.02
    opened(project, models, context_concurrency=most)
    assert len(chats(models, "<document>")) == len(IDS)
    assert models.peak == most


def test_of_a_long_document_the_model_reads_headings_and_surroundings(project: Project, models: FakeModels) -> None:
    long = "".join(f"# Section {n}\n\n{f'word{n} ' * 100}\n\n" for n in range(100))
    project.write("handbook.md", long)
    opened(project, models, "word")
    asked = [request for request in chats(models, "<document>") if "<passage>\nSection 57\n" in request.text]
    assert len(asked[0].text) < 30_000
    assert "Section 0" in asked[0].text
    assert "Section 99" in asked[0].text
    assert asked[0].text.count("word57") == 200


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Fault("server_error", times=None), "failed (status 500)"),
        (Answer(""), "OpenAI model gpt-4o answered nothing"),
        (Answer("", finish="length"), "all of context_max_tokens may have gone into its reasoning"),
        (Answer(refusal="I cannot do that."), "would not describe the chunk"),
    ],
)
def test_a_context_that_cannot_be_had_makes_the_tool_unavailable(
    project: Project, models: FakeModels, reply: Any, said: str
) -> None:
    models.answer(lambda request: reply)
    with pytest.raises(AgentError) as caught:
        opened(project, models, "session")
    assert caught.value.code == "tool_unavailable"
    assert caught.value.message.startswith("tools.rules: a chunk got no context (contextual_embeddings): handbook.md#")
    assert said in caught.value.message


# -- definitions, references


@pytest.mark.proves("HierarchicalDocumentTool: extract_definitions extract_cross_references")
def test_definitions_and_references_are_added(project: Project, models: FakeModels) -> None:
    keyword: dict[str, Any] = {"search_mode": "keyword"}
    session = "Handbook > 4 Access > 4.2 Sessions\n\nA Token opens one session and lasts one hour."
    added = '\n\nDefinitions:\n- "Token" means a string that opens a session.'
    assert opened(project, models, "hour", **keyword).texts == [session + added]
    assert opened(project, models, "hour", extract_definitions=False, **keyword).texts == [session]
    password = "Handbook > 4 Access > 4.1 Passwords\n\nPasswords change every 90 days. See section 4.2."
    added = "\n\nRefers to:\n- Handbook > 4 Access > 4.2 Sessions (handbook.md#4.2)"
    assert opened(project, models, "days", **keyword).texts == [password + added]
    assert opened(project, models, "days", extract_cross_references=False, **keyword).texts == [password]


# -- reranking


def judged(*scores: float) -> list[dict[str, Any]]:
    return [{"passage": number, "score": score} for number, score in enumerate(scores, start=1)]


def reranking(models: FakeModels, **more: Any) -> dict[str, Any]:
    return {
        "search_mode": "keyword",
        "enable_reranking": True,
        "reranker_model": openai(models, "judge"),
        **more,
        **PLAIN,
    }


@pytest.mark.proves("HierarchicalDocumentTool: enable_reranking reranker_model")
def test_a_model_reranks(project: Project, models: FakeModels) -> None:
    query = "session token"
    before = opened(project, models, query, search_mode="keyword", **PLAIN)
    assert len(before.ids) == 2
    models.answer(helper(scores=judged(2, 9.5)))
    found = opened(project, models, query, **reranking(models))
    assert found.ids == before.ids[::-1]
    assert [(hit["score"], hit["search_score"], hit["reranked"]) for hit in found.hits] == [
        (0.95, before.hits[1]["score"], True),
        (0.2, before.hits[0]["score"], True),
    ]
    (request,) = chats(models)
    assert request.model == "judge"
    assert request.text.startswith(f"<query>\n{query}\n</query>\n\n<passage 1>\nHandbook > ")
    assert request.schema is not None
    # Of more candidates than results the best are kept.
    assert opened(project, models, query, **reranking(models, top_k=1)).ids == before.ids[1:]
    # Nothing found is nothing to judge.
    assert opened(project, models, "unknown", **reranking(models)).hits == []
    assert len(chats(models)) == 2


@pytest.mark.parametrize(
    "scores",
    [
        "I would say the second.",
        '{"scores": 7}',
        "[]",
        judged(1),
        judged(1, 2, 3),
        judged(1, 11),
        [{"passage": 1, "score": 1}, {"passage": 1, "score": 2}],
        [{"passage": 1, "score": True}, {"passage": 2, "score": "9"}],
        [{"passage": 1, "score": 1}, {"passage": [], "score": 2}],
        '{"scores": [{"passage": 1, "score": NaN}, {"passage": 2, "score": 1}]}',
    ],
)
def test_an_answer_without_usable_scores_keeps_the_order_and_says_so(
    project: Project, models: FakeModels, scores: Any
) -> None:
    before = opened(project, models, "session token", search_mode="keyword", **PLAIN)
    models.answer(helper(scores=scores))
    found = opened(project, models, "session token", **reranking(models))
    assert found.hits == [{**hit, "reranked": False} for hit in before.hits]
    assert (found.results[0].for_model or "").startswith("[The reranker gave no usable scores:")


def test_a_fenced_answer_is_read(project: Project, models: FakeModels) -> None:
    models.answer(helper(scores="```json\n" + json.dumps({"scores": judged(2, 9)}) + "\n```"))
    assert [hit["score"] for hit in opened(project, models, "session token", **reranking(models)).hits] == [0.9, 0.2]


def test_a_reranker_that_does_not_answer_is_no_low_score(project: Project, models: FakeModels) -> None:
    models.answer(lambda request: Fault("server_error"))
    with pytest.raises(ModelCallError) as caught:
        opened(project, models, "session", **reranking(models))
    assert caught.value.code == "server_error"


# -- queries


def test_a_query_that_is_none(project: Project, models: FakeModels) -> None:
    with pytest.raises(ToolError) as caught:
        opened(project, models, "  ", search_mode="keyword")
    assert caught.value.code == "bad_arguments"


def test_hits_that_do_not_fit_are_left_away(project: Project, models: FakeModels) -> None:
    keyword: dict[str, Any] = {"search_mode": "keyword", **PLAIN}
    every = opened(project, models, "session token", **keyword)
    size = len(json.dumps(every.hits[0]).encode()) + 10
    found = opened(project, models, "session token", max_bytes=size, **keyword)
    assert found.hits == every.hits[:1]
    assert (found.results[0].cut, found.results[0].bytes) == (True, every.results[0].bytes)
    with pytest.raises(ToolError) as caught:
        opened(project, models, "session token", max_bytes=20, **keyword)
    assert caught.value.code == "too_large"


# -- who embeds, what is refused, what is noted


@pytest.mark.proves("HierarchicalDocumentTool: embedding_model")
def test_the_embedding_model(project: Project, models: FakeModels) -> None:
    opened(project, models, "session", embedding_model="text-embedding-3-large", **PLAIN)
    assert {each.model for each in models.requests} == {"text-embedding-3-large"}


def test_tools_share_one_embedding_model(project: Project, models: FakeModels) -> None:
    other = {"type": "vectorstore", "name": "faq", "description": "d", "source": "handbook.md", "embedding_model": "b"}
    with pytest.raises(TargetError) as caught:
        opened(project, models, "session", embedding_model="a", more_tools=[other])
    assert "share one embedding model" in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"source": "absent.md"}, 'tools.rules.source: "absent.md" does not exist'),
        ({"source": "https://example.com/a.md"}, "tools.rules.source: "),
        ({"chunk_overlap": 60, "max_chunk_tokens": 110}, "60 is more than half of max_chunk_tokens (110)"),
        ({"context_model": {"provider": "anthropic", "name": "claude"}}, "tools.rules.context_model"),
        (
            {"enable_reranking": True, "reranker_model": {"provider": "anthropic", "name": "claude"}},
            "tools.rules.reranker_model",
        ),
        ({"name": "r" * 60}, "is longer than 64 characters"),
    ],
)
def test_what_cannot_work_is_refused(project: Project, models: FakeModels, fields: dict[str, Any], said: str) -> None:
    with pytest.raises((TargetError, ModelConfigError)) as caught:
        opened(project, models, "session", **fields)
    assert said in str(caught.value)
    assert models.requests == []


def test_a_source_that_is_no_text(project: Project, models: FakeModels) -> None:
    project.write("handbook.md", b"\xff\xfe")
    with pytest.raises(TargetError) as refused:
        opened(project, models, "session")
    assert "handbook.md: cannot be read: it is not UTF-8 text" in str(refused.value)
    project.write("handbook.md", " \n")
    with pytest.raises(AgentError) as caught:
        opened(project, models, "session", **PLAIN)
    assert (caught.value.code, caught.value.message) == (
        "tool_unavailable",
        'tools.rules.source: "handbook.md" holds no text',
    )


@pytest.mark.proves(
    "HierarchicalDocumentTool: database keyword_index",
    "KeywordIndex: provider endpoint index_name username password api_key verify_certs timeout_seconds",
)
@pytest.mark.parametrize(
    ("fields", "noted"),
    [
        (
            {"database": "chromadb"},
            'the database "chromadb" is not used: the source is embedded and searched in memory',
        ),
        ({"database": {"provider": "in-memory"}}, None),
        (
            {"keyword_index": {"provider": "opensearch", "endpoint": "https://u:planted@o", "index_name": "i"}},
            "keyword_index opensearch is not used: keywords are searched in memory",
        ),
        ({"keyword_index": {"provider": "in-memory"}}, None),
        ({"context_max_tokens": 60}, "context_max_tokens is not used without contextual_embeddings"),
        (
            {"reranker_model": {"provider": "openai", "name": "x"}},
            "reranker_model is not used without enable_reranking",
        ),
        (
            {"search_mode": "keyword", "embedding_model": "e", "rrf_k": 5},
            "rrf_k is not used in keyword search",
        ),
        (
            {"search_mode": "keyword", "embedding_model": "e"},
            "embedding_model is not used without semantic search",
        ),
        ({"search_mode": "semantic", "exact_weight": 0.2}, "exact_weight is not used in semantic search"),
    ],
)
def test_what_has_no_effect_is_named(
    project: Project, models: FakeModels, fields: dict[str, Any], noted: str | None
) -> None:
    found = opened(project, models, **fields, **PLAIN)
    expected = [] if noted is None else [f"tools.rules: {noted}"]
    assert [notice for notice in found.notices if notice in expected] == expected
    assert noted is not None or found.notices == ()
    assert "planted" not in str(found.notices)


def test_what_does_not_embed_is_unavailable(project: Project, models: FakeModels) -> None:
    models.answer(lambda request: Fault("bad_gateway"))
    with pytest.raises(AgentError) as caught:
        opened(project, models, "session", **PLAIN)
    assert caught.value.code == "tool_unavailable"
    assert caught.value.message.startswith("the documents of tools.rules cannot be embedded: ")


def test_a_tool_can_be_closed_before_and_while_it_opens(project: Project, models: FakeModels) -> None:
    write(project, models)
    suite = load_suite(project.folder / "agent.yaml", environ={}, home=None, metrics=built_in())
    environ = {"OPENAI_API_KEY": KEY}
    models.hold()
    wire = Wire(WireSettings())
    toolkit = HierarchicalDocuments(suite, resolve_model(suite.agent.model, environ), environ, wire)

    async def cancelled() -> None:
        task = asyncio.create_task(toolkit.open())
        await asyncio.to_thread(models.wait_for, lambda server: server.under_way > 0)
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
        await toolkit.close()
        await wire.close()

    run(cancelled())
    models.release()


# -- behind `run`


def turn_of(record: Record) -> TurnRecord:
    return record.cases[0].trials[0].turns[0]


def report(project: Project, folder: str) -> str:
    finished = project.run("report", f"{folder}/results.json", "--canonical", "--format", "json")
    assert finished.code == 0, finished.stderr
    return finished.stdout


def test_a_recorded_run_shows_its_chunks_and_replays_to_the_same_bytes(project: Project) -> None:
    with FakeModels(keys=[KEY]) as models:
        write(project, models, top_k=2, enable_reranking=True, reranker_model=openai(models, "judge"), min_score=0.6)
        metrics = [{"type": "retrieval", "metric": "recall_at_k", "k": [2], "threshold": 1.0}]
        project.policy(metrics=metrics, cases={"one": {"retrieval": {"ground_truth_chunk_ids": ["handbook.md#4.2"]}}})
        models.answer(judging())
        finished, record = project.evaluate("--record", "tape", OPENAI_API_KEY=KEY)
        assert finished.code == 0, finished.stdout + finished.stderr
        assert models.violations == []
    turn = turn_of(record)
    (called,) = turn.tool_invocations or ()
    assert (called.name, called.args, called.error) == ("rules_search", {"query": "how long is a session"}, None)
    chunks = turn.retrieved_chunks or ()
    assert [(chunk.id, chunk.score) for chunk in chunks] == [(hit["id"], hit["score"]) for hit in called.result]
    assert chunks[0].id == "handbook.md#4.2"
    assert list(turn.retrieval_context or ()) == [chunk.text for chunk in chunks]
    assert "note: tools.rules: contextual_embeddings makes 5 calls" in finished.stderr
    before = report(project, "out")
    replayed = project.run("run", "-o", "second", "--replay", "tape", OPENAI_API_KEY="")
    assert replayed.code == 0, replayed.stdout + replayed.stderr
    assert report(project, "second") == before
    for path in project.folder.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()


def judging() -> Callable[[Request], Answer]:
    """Help, and judge the section on sessions to be the best."""
    help_with = helper()

    def rule(request: Request) -> Answer:
        if not request.text.startswith("<query>"):
            return help_with(request)
        passages = request.text.split("<passage ")[1:]
        return Answer(json.dumps({"scores": judged(*(9 if "4.2 Sessions\n" in each else 2 for each in passages))}))

    return rule


def test_a_failed_preparation_is_an_error_of_every_case(project: Project, models: FakeModels) -> None:
    write(project, models)
    models.fail(Fault("bad_key", times=None, about=lambda request: request.operation == "embeddings"))
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stdout + finished.stderr
    assert "the documents of tools.rules cannot be embedded" in finished.stdout
    assert turn_of(record).response is None


def test_a_query_that_cannot_be_embedded_is_an_error_and_no_low_score(project: Project, models: FakeModels) -> None:
    write(project, models, **PLAIN)

    def is_query(request: Request) -> bool:
        return request.operation == "embeddings" and len(request.inputs) == 1

    models.fail(Fault("quota", times=None, about=is_query))
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stdout + finished.stderr
    error = turn_of(record).error
    assert error is not None
    assert error.code == "quota"


def test_a_source_that_is_not_there_is_a_configuration_error(project: Project, models: FakeModels) -> None:
    write(project, models, source="absent")
    finished = project.run("run", OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert "agent.yaml:" in finished.stderr
    assert 'tools.rules.source: "absent" does not exist' in finished.stderr
    assert models.requests == []


# -- the plan


def pages(count: int) -> bytes:
    """A PDF file of so many pages, each of which says something else."""
    return pdf([f"Rule {number}. A session lasts {number} minutes and ends by itself." for number in range(count)])


@pytest.mark.full
def test_the_plan_names_contexts_embeddings_and_reranking_of_a_pdf(project: Project, models: FakeModels) -> None:
    project.write("rules.pdf", pages(6))
    fields = {"source": "rules.pdf", "max_chunk_tokens": 100, "chunking_strategy": "token", "enable_reranking": True}
    write(project, models, **fields, reranker_model=openai(models, "gpt-4o-mini"))
    planned = project.run("run", "--dry-run", OPENAI_API_KEY=KEY)
    assert planned.code == 0, planned.stderr
    assert models.requests == []
    said = planned.stdout + planned.stderr
    found = re.search(
        r"documents, before the first case: (\d+) calls? of openai/gpt-4o for contexts of chunks, about [\d,]+ tokens, "
        r"from \$[\d.]+ to \$[\d.]+; (\d+) calls? of openai/text-embedding-3-small for embeddings of documents, about "
        r"[\d,]+(?: to [\d,]+)? tokens, from \$[\d.]+ to \$[\d.]+; for each search 1 call of openai/gpt-4o-mini for "
        r"reranking and 1 of openai/text-embedding-3-small for embedding of the query",
        said,
    )
    assert found is not None, said
    assert "at least 0 calls" not in said
    finished, _ = project.evaluate(OPENAI_API_KEY=KEY)
    assert found[0] in finished.stdout + finished.stderr
    asked = len(chats(models, "<document>"))
    assert asked == int(found[1]) > 0
    before = [request for request in models.requests if request.operation == "embeddings" and len(request.inputs) > 1]
    assert len(before) <= int(found[2])


@pytest.mark.full
def test_a_budget_holds_for_contexts(project: Project, models: FakeModels) -> None:
    project.write("rules.pdf", pages(6))
    write(project, models, source="rules.pdf", max_chunk_tokens=100, chunking_strategy="token")
    finished = project.run("run", "-o", "out", "--max-tokens", "100", OPENAI_API_KEY=KEY)
    assert finished.code == 4, finished.stdout + finished.stderr
    assert "less than the minimum of the plan: the run will stop early" in finished.stderr
    assert "the budget of 100 tokens is used up" in finished.stdout


@pytest.mark.full
def test_the_plan_of_a_document_that_cannot_be_read_says_so(project: Project, models: FakeModels) -> None:
    project.write("rules.pdf", b"no PDF")
    write(project, models, source="rules.pdf")
    planned = project.run("run", "--dry-run", OPENAI_API_KEY=KEY)
    assert "tools.rules.source: rules.pdf: cannot be read" in planned.stdout + planned.stderr


def test_the_plan_counts_the_embeddings_of_every_kind_of_tool(project: Project, models: FakeModels) -> None:
    vectors = {"type": "vectorstore", "name": "papers", "description": "Papers", "source": "papers"}
    # More texts than one request holds.
    for number in range(130):
        project.write(f"papers/{number}.md", f"Paper {number}")
    write(project, models, more_tools=[vectors], contextual_embeddings=False)
    planned = project.run("run", "--dry-run", OPENAI_API_KEY=KEY)
    assert planned.code == 0, planned.stderr
    said = planned.stdout + planned.stderr
    assert "2 calls of openai/text-embedding-3-small for embeddings of documents, about 290 tokens" in said
    assert "1 call of openai/text-embedding-3-small for embeddings of documents" in said
    assert "contexts of chunks" not in said
    assert said.count("for embedding of the query") == 1
